-- Decides whether an endpoint may be called now, and counts the call against its limits. A key that holds a
-- foreign value counts as empty, and so does a field that is not a number or a time that none of our scripts can
-- have written. They do not prevent the call.
--
-- Each call that a limit holds back gets its own time, after the times of the calls held back before it. Otherwise
-- thousands of calls would come back at the next free place and ask again and again. `booked` is the next such time.
-- The times are closer together than the limit allows, because a caller may come late or not at all.
--
-- KEYS  1 endpoint  2 breaker of its origin  3 calls under way
-- ARGV  1 ms after which a probe that never reported is forgotten  2 ms to wait for a probe
--       3 ms to wait for an endpoint that is paused  4 token of this call
--       5 ms after which a call that never reported is forgotten  6 ms to wait for a free place
--       7 maximum ms that a limit holds a call back
--       8 maximum ms that an endpoint can ask to wait, and that a breaker is open
-- Returns {"go", secrets, wrong} | {"limited", secrets, wrong} as "go", but ask again for the next call
--       | {"probe", secrets, wrong} this call decides whether the breaker closes
--       | {"disabled", reason} | {"hold", ms, why}; wrong is "" or a key of a wrong type
local call, wrong = redis.call, ''
local function isForeign(reply) return type(reply) == 'table' and reply.err and string.find(reply.err, 'WRONGTYPE') end
local function read(key, ...)
  if not isForeign(redis.pcall('HLEN', key)) then return call('HMGET', key, ...) end
  wrong = key
  return {}
end
local known = read(KEYS[1], 'disabled', 'held', 'paused', 'rate', 'concurrency', 'tat', 'secrets', 'booked', 'took',
  'heldMs')
if known[1] then return { 'disabled', known[1] } end
if known[3] then return { 'hold', tonumber(ARGV[3]), 'the endpoint is paused' } end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function number(text)
  local value = text and tonumber(text) or 0
  return value - value == 0 and value or 0 -- neither infinite nor NaN
end
-- A time that was at most `ms` ahead when it was written; 0 if it is further ahead now, because the clock was set
-- back.
local function timeOf(text, ms)
  local at = number(text)
  return at - now <= tonumber(ms) and at or 0
end
local held = timeOf(known[2], number(known[10]) > 0 and known[10] or ARGV[8])
if held > now then return { 'hold', math.ceil(held - now), 'the endpoint asked to wait' } end

local breaker = read(KEYS[2], 'until', 'probe', 'openMs')
local isOpen = number(breaker[1]) > 0
local open = timeOf(breaker[1], number(breaker[3]) > 0 and breaker[3] or ARGV[8])
if open > now then return { 'hold', math.ceil(open - now), 'the circuit breaker is open' } end
local probe = timeOf(breaker[2], ARGV[1])
if isOpen and probe > now then
  -- The probe reports soon, long before a probe that never reports is forgotten.
  return { 'hold', math.min(math.ceil(probe - now), tonumber(ARGV[2])), 'the circuit breaker waits for a probe' }
end

local rate, most, tat = number(known[4]), number(known[5]), number(known[6])
local took = math.min(number(known[9]), tonumber(ARGV[5])) -- how long a call takes
-- Holds the call back for at least `wait` ms.
local function later(wait, why)
  local apart = math.max(rate > 0 and 800 / rate or 0, most > 0 and took / most / 4 or 0, 1)
  local longest, booked = tonumber(ARGV[7]), number(known[8])
  if booked - now > longest + apart then booked = 0 end -- too far ahead only if the clock was set back
  local at = math.max(booked, now + wait)
  if at - now >= longest then return { 'hold', longest, why } end
  call('HSET', KEYS[1], 'booked', string.format('%.3f', at + apart))
  return { 'hold', math.ceil(at - now), why }
end
redis.pcall('HDEL', KEYS[2], '') -- allows the later writes, as in get.lua
if most > 0 and isForeign(redis.pcall('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)) then
  wrong, most = KEYS[3], 0
end
if most > 0 then
  if call('ZCARD', KEYS[3]) >= most then
    return later(tonumber(ARGV[6]), 'the endpoint has its maximum of deliveries under way')
  end
end
if rate > 0 then -- the generic cell rate algorithm, with a burst of 100 ms
  if tat - now > 101 + 1000 / rate then tat = 0 end -- too far ahead only if the clock was set back
  if tat - now > 100 then return later(tat - now - 100, 'the endpoint has its maximum rate') end
  call('HSET', KEYS[1], 'tat', string.format('%.3f', math.max(tat, now) + 1000 / rate))
end
if most > 0 then
  call('ZADD', KEYS[3], now + ARGV[5], ARGV[4])
  -- Calls of another dispatcher may take longer than ours.
  if call('PTTL', KEYS[3]) < tonumber(ARGV[5]) then call('PEXPIRE', KEYS[3], ARGV[5]) end
end
if isOpen then
  call('HSET', KEYS[2], 'probe', now + ARGV[1])
  return { 'probe', known[7] or '', wrong }
end
return { (rate > 0 or most > 0) and 'limited' or 'go', known[7] or '', wrong }
