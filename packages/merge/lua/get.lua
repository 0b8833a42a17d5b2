-- Takes the lock of one key and hands out its oldest items.
--
-- KEYS  1-11 the unit; 12 paused, 13 paused keys: only to check whether the key was paused meanwhile
-- ARGV  1 key  2 maximum of items  3 lease ms  4 token  5 id for a new batch  6 maximum of bytes
--       7 "1": a batch that failed is returned again unchanged
--       8 "1": if locked, the timer is moved to the lock's end instead of staying due
--       9 "" or the score under which the key was reserved  10 "" or the score it was due at
-- Returns {"ok", batch id, attempt, items, heads in one string with a line each, bodies, ms since the batch was
--       due, how to deliver or ""}. The bodies are not joined: Redis hashes every string that a script makes, byte
--       by byte, which costs more than hundreds of strings in the reply
--       | {"locked", ms of the lock or -1} | {"moved"} it is not due, or it is paused | {"empty"}
local timer, queue, items, data, locker, overwrite, start, state, singles, replay, replayItems = unpack(KEYS)
local call = redis.call
local key, number, leaseMs, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local maxBytes = tonumber(ARGV[6])

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function score(ms) return string.format('%.3f', ms / 1000) end

-- Reads come first: a key of a wrong type fails here, before anything has changed.
local current = tonumber(call('ZSCORE', timer, key) or nil)
if ARGV[9] ~= '' and current and current ~= tonumber(ARGV[9]) and current * 1000 > now then
  return { 'moved' } -- a push postponed it after the reservation
end
if KEYS[12] and (call('EXISTS', KEYS[12]) == 1 or redis.pcall('SISMEMBER', KEYS[13], key) == 1) then
  call('ZREM', timer, '') -- allows the later writes, as below
  call('ZADD', timer, 'XX', ARGV[10], key) -- a paused key keeps the time it had before the reservation
  return { 'moved' }
end
local length, headed = call('LLEN', queue), call('LLEN', items)
local known = call('HMGET', state, 'batch', 'delivery', 'attempts', 'next', 'replayed', 'request', 'bytes',
  'unsized', 'ghost', 'starts')
local replayed = known[5] and call('LLEN', replay) or 0

-- The first write needs no memory. Redis then allows the later writes of the script even when it is out of
-- memory, so that queued items can still be delivered.
call('HDEL', state, '')
if not call('SET', locker, token, 'NX', 'PX', leaseMs) then
  if call('GET', locker) ~= token then
    local left = call('PTTL', locker)
    if ARGV[8] == '1' and current then
      -- 0: the lock ends within this millisecond; -1: the lock has no end, and the key is tried again later.
      local wait = left == -1 and leaseMs or math.max(left, 1)
      call('ZADD', timer, 'XX', score(now + wait), key)
    end
    return { 'locked', left }
  end
  call('PEXPIRE', locker, leaseMs)
end

if length == 0 and replayed == 0 then -- a timer entry without items would be due for ever
  call('UNLINK', locker, items, data, overwrite, start, state, replay, replayItems)
  call('ZREM', timer, key)
  call('ZREM', singles, key)
  return { 'empty' }
end
local out = tonumber(known[1] or nil) or 0 -- another program may have written anything
out = math.max(0, math.min(math.floor(out), length))
-- Another program took items of the batch, and left their heads. The rest is another batch, with an id of its own.
local taken = math.max(0, headed - length)
if taken > 0 and out > 0 then out = math.max(0, math.min(math.floor(tonumber(known[1])) - taken, length)) end
-- When the fresh items fire; nil if it is not written, or if another program wrote anything but a number.
local fresh = tonumber(known[4] or nil)
if ARGV[8] == '1' and out == 0 and replayed == 0 and (known[5] or known[9]) and fresh and fresh * 1000 > now then
  -- The items that made the key due were deleted during a delivery whose holder died. The rest has its own time.
  call('DEL', locker)
  call('HDEL', state, 'ghost', 'replayed', 'next')
  call('ZADD', timer, known[4], key)
  return { 'moved' }
end

-- How many of the first items of a list fit into maxBytes, but at least one. The heads contain the sizes;
-- bodies whose head has no size are read one at a time.
local function fitting(list, heads, most)
  local sum = 0
  for i = 1, most do
    local size = heads[i] and string.match(heads[i], '^%S+ %S+ (%d+) ')
    sum = sum + (tonumber(size) or #(call('LINDEX', list, i - 1) or ''))
    if sum > maxBytes and i > 1 then return i - 1 end
  end
  return most
end

local resumed = ARGV[7] == '1' and out > 0
local fromReplay = out == 0 and replayed > 0
if resumed then number = out end
if fromReplay then
  number = math.min(number, call('LLEN', replay))
  local heads = call('LRANGE', replayItems, 0, number - 1)
  number = fitting(replay, heads, number)
  local bodies = call('LRANGE', replay, 0, number - 1)
  for i = number, 1, -1 do
    call('LPUSH', queue, bodies[i])
    call('LPUSH', items, heads[i] or string.format('x:%d-r%d %d - -', now, i, now))
  end
  call('LTRIM', replay, number, -1)
  call('LTRIM', replayItems, number, -1)
  replayed = call('LLEN', replay)
  if replayed == 0 then call('HDEL', state, 'replayed') else call('HSET', state, 'replayed', replayed) end
  length, headed = length + number, headed + number
end
if number > length then number = length end
if headed > length then call('LTRIM', items, headed - length, -1) end
for i = headed + 1, number do -- pushed by another program, without heads
  call('RPUSH', items, string.format('x:%d-%d %d - -', now, i, now))
end

local heads = call('LRANGE', items, 0, number - 1)
local counted = number == length and out == 0 and headed == length and not known[8]
if not resumed and not fromReplay and not (counted and tonumber(known[7] or maxBytes + 1) <= maxBytes) then
  local all = number
  number = fitting(queue, heads, number)
  for i = all, number + 1, -1 do heads[i] = nil end
end
local bodies = call('LRANGE', queue, 0, number - 1)

local due = ARGV[10] ~= '' and tonumber(ARGV[10]) or current or now / 1000
if known[9] then due = fresh or due end
local delivery, attempt = ARGV[5], 1
if resumed and known[2] and taken == 0 then delivery = known[2] end
if resumed then attempt = tonumber(known[3] or 0) + 1 end
call('HSET', state, 'batch', number, 'delivery', delivery, 'attempts', attempt)
if not resumed and not fromReplay then
  -- The remaining items stay due as before, unless a push has changed their time.
  if length == number then
    if replayed == 0 and known[4] then call('HDEL', state, 'next') end
  elseif not (out > 0 and fresh) then
    call('HSET', state, 'next', string.format('%.3f', due), 'bytes', 0, 'unsized', '1')
  end
end
if known[9] or known[10] then call('HDEL', state, 'starts', 'ghost') end
call('DEL', start)
call('SET', overwrite, '1')
call('ZADD', timer, score(now + leaseMs), key)
return { 'ok', delivery, attempt, number, table.concat(heads, '\n'), bodies, math.floor(now - due * 1000 + 0.5), known[6] or '' }
