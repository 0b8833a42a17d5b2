-- Moves a batch (or all of a key that nobody fetches) to the dead letters, with the reason.
--
-- KEYS  1-9 the unit, 10-15 the letter
-- ARGV  1 key  2 channel  3 token, or "" for all of the key  4 without a token: the start that expired
--       5 id of the letter  6 reason
-- Returns items moved, or -1 if the token does not hold the lock or the key was fetched meanwhile
local timer, queue, items, data, locker, overwrite, start, state, singles = unpack(KEYS)
local dead, record, deadBodies, deadItems, deadData, deadOf = unpack(KEYS, 10)
local length = redis.call('LLEN', queue)
local known = redis.call('HMGET', state, 'batch', 'next', 'attempts', 'delivery')
local count
if ARGV[3] ~= '' then
  if redis.call('GET', locker) ~= ARGV[3] then return -1 end
  count = math.min(tonumber(known[1] or 0), length)
else
  if redis.call('GET', start) ~= ARGV[4] then return -1 end
  count = length
end

redis.call('HDEL', state, '') -- opens the way as in get.lua
local function move(from, to)
  if count == length then
    if redis.call('EXISTS', from) == 1 then redis.call('RENAME', from, to) end
    return
  end
  for i = 0, count - 1, 500 do
    redis.call('RPUSH', to, unpack(redis.call('LRANGE', from, i, math.min(i + 499, count - 1))))
  end
  redis.call('LTRIM', from, count, -1)
end
if count > 0 then
  move(queue, deadBodies)
  if redis.call('EXISTS', items) == 1 then move(items, deadItems) end
  local fields = redis.call('HGETALL', data)
  if #fields > 0 then redis.call('HSET', deadData, unpack(fields)) end
  local time = redis.call('TIME')
  local at = string.format('%d.%03d', time[1], math.floor(time[2] / 1000))
  redis.call('HSET', record, 'key', ARGV[1], 'reason', ARGV[6], 'items', count, 'at', at,
    'attempts', known[3] or 0, 'delivery', known[4] or '')
  redis.call('ZADD', dead, at, ARGV[5])
  redis.call('ZADD', deadOf, at, ARGV[5])
end

if count == 0 then -- deleted meanwhile: whatever is there now has its own time
  redis.call('DEL', locker)
  return 0
end
if count == length then
  redis.call('DEL', items, data, overwrite, start, state)
  redis.call('ZREM', timer, ARGV[1])
  redis.call('ZREM', singles, ARGV[1])
else
  redis.call('DEL', overwrite, start)
  redis.call('HDEL', state, 'batch', 'delivery', 'attempts', 'next', 'starts', 'error')
  redis.call('ZADD', timer, known[2] or redis.call('TIME')[1], ARGV[1])
  redis.call('PUBLISH', ARGV[2], 'insert')
end
if ARGV[3] ~= '' then redis.call('DEL', locker) end
return count
