-- Takes items that can never be delivered out of a batch and makes them a dead letter; the rest of the
-- batch is released and comes again at once.
--
-- KEYS  1-9 the unit, 10-15 the letter
-- ARGV  1 key  2 channel  3 token  4 id of the letter  5 reason  6.. positions in the batch, from 0, rising
-- Returns items taken out, or -1 if the token does not hold the lock
local timer, queue, items, data, locker, overwrite, start, state, singles = unpack(KEYS)
local dead, record, deadBodies, deadItems, _, deadOf = unpack(KEYS, 10)
if redis.call('GET', locker) ~= ARGV[3] then return -1 end
redis.call('DEL', locker)
local batch = tonumber(redis.call('HGET', state, 'batch') or 0)
if batch == 0 then return 0 end -- deleted meanwhile

local spoiled, count = {}, 0
for i = 6, #ARGV do spoiled[tonumber(ARGV[i])] = true end
for list, grave in pairs({ [queue] = deadBodies, [items] = deadItems }) do
  local all = redis.call('LRANGE', list, 0, batch - 1)
  redis.call('LTRIM', list, batch, -1)
  count = 0
  for i = #all, 1, -1 do
    if spoiled[i - 1] then
      redis.call('LPUSH', grave, all[i])
      count = count + 1
    else
      redis.call('LPUSH', list, all[i])
    end
  end
end

local time = redis.call('TIME')
local now = string.format('%d.%03d', time[1], math.floor(time[2] / 1000))
redis.call('HSET', record, 'key', ARGV[1], 'reason', ARGV[5], 'items', count, 'at', now,
  'attempts', 0, 'delivery', '')
redis.call('ZADD', dead, now, ARGV[4])
redis.call('ZADD', deadOf, now, ARGV[4])
if redis.call('LLEN', queue) == 0 then
  redis.call('DEL', items, data, overwrite, start, state)
  redis.call('ZREM', timer, ARGV[1])
  redis.call('ZREM', singles, ARGV[1])
  return count
end
if batch == count then -- only fresh items are left, and they have a time of their own
  now = redis.call('HGET', state, 'next') or now
  redis.call('HDEL', state, 'batch', 'delivery', 'attempts', 'next', 'error')
else
  redis.call('HINCRBY', state, 'attempts', -1)
  redis.call('HSET', state, 'batch', batch - count)
end
redis.call('ZADD', timer, now, ARGV[1])
redis.call('PUBLISH', ARGV[2], 'insert')
return count
