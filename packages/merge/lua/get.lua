-- Takes the lock of one key and hands out its oldest items.
--
-- KEYS  1-9 the unit
-- ARGV  1 key  2 number of items, -1 all  3 lease ms  4 token  5 id for a new batch  6 maxBytes, 0 any
--       7 "1": a batch that failed is handed out again as it was
--       8 "1": if locked, the timer is moved to the lock's end instead of staying due
--       9 "" or the score under which the key was reserved  10 "" or the score it was due at
-- Returns {"ok", batch id, attempt, heads, bodies, age of the batch's time in ms}
--       | {"locked", ms of the lock or -1} | {"moved"} | {"empty"}
local timer, queue, items, data, locker, overwrite, start, state, singles = unpack(KEYS)
local key, number, leaseMs, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function score(ms) return string.format('%.3f', ms / 1000) end

local current = tonumber(redis.call('ZSCORE', timer, key) or nil)
if ARGV[9] ~= '' and current and current ~= tonumber(ARGV[9]) and current * 1000 > now then
  return { 'moved' } -- a push postponed it between reservation and now
end

-- The first write needs no memory: then Redis lets the others of the script pass even when it has
-- none left, and what is queued can still go out.
redis.call('HDEL', state, '')
if not redis.call('SET', locker, token, 'NX', 'PX', leaseMs) then
  if redis.call('GET', locker) ~= token then
    local left = redis.call('PTTL', locker)
    if ARGV[8] == '1' and current then
      redis.call('ZADD', timer, 'XX', score(now + (left > 0 and left or leaseMs)), key)
    end
    return { 'locked', left }
  end
  redis.call('PEXPIRE', locker, leaseMs)
end

local length = redis.call('LLEN', queue)
if length == 0 then -- a timer entry without items would be due for ever
  redis.call('DEL', locker, items, data, overwrite, start, state)
  redis.call('ZREM', timer, key)
  redis.call('ZREM', singles, key)
  return { 'empty' }
end

local known = redis.call('HMGET', state, 'batch', 'delivery', 'attempts', 'next')
local out = math.min(tonumber(known[1] or 0), length)
local resumed = ARGV[7] == '1' and out > 0
if resumed then number = out end
if number < 0 or number > length then number = length end

local bodies = redis.call('LRANGE', queue, 0, number - 1)
local maxBytes = tonumber(ARGV[6])
if maxBytes > 0 and not resumed then
  local sum = 0
  for i = 1, #bodies do
    sum = sum + #bodies[i]
    if sum > maxBytes and i > 1 then
      number = i - 1
      for j = #bodies, i, -1 do bodies[j] = nil end
      break
    end
  end
end
local headed = redis.call('LLEN', items)
for i = 1, length - headed do -- pushed by a program of the seed, without heads
  redis.call('RPUSH', items, string.format('x:%d-%d %d -', now, i, now))
end
if headed > length then redis.call('LTRIM', items, headed - length, -1) end
local heads = redis.call('LRANGE', items, 0, number - 1)

local due = ARGV[10] ~= '' and tonumber(ARGV[10]) or current or now / 1000
local delivery, attempt = ARGV[5], 1
if resumed and known[2] then delivery = known[2] end
if resumed then attempt = tonumber(known[3] or 0) + 1 end
redis.call('HSET', state, 'batch', number, 'delivery', delivery, 'attempts', attempt)
if not resumed then
  -- What stays behind is as due as it was, unless a push has said otherwise.
  if length == number then
    redis.call('HDEL', state, 'next', 'starts')
  elseif out > 0 and known[4] then
    redis.call('HDEL', state, 'starts')
  else
    redis.call('HSET', state, 'next', string.format('%.3f', due), 'bytes', 0)
    redis.call('HDEL', state, 'starts')
  end
end
redis.call('DEL', start)
redis.call('SET', overwrite, '1')
redis.call('ZADD', timer, score(now + leaseMs), key)
return { 'ok', delivery, attempt, heads, bodies, math.floor(now - due * 1000 + 0.5) }
