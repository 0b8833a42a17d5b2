-- Removes exactly the batch that was handed out, and unlocks.
--
-- KEYS  1-9 the unit
-- ARGV  1 key  2 channel  3 token
-- Returns items that are left, or -1 if the token does not hold the lock
local timer, queue, items, data, locker, overwrite, start, state, singles = unpack(KEYS)
if redis.call('GET', locker) ~= ARGV[3] then return -1 end

local known = redis.call('HMGET', state, 'batch', 'next')
local batch = tonumber(known[1] or 0)
if batch > 0 then
  redis.call('LTRIM', queue, batch, -1)
  redis.call('LTRIM', items, batch, -1)
end
local left = redis.call('LLEN', queue)
if left == 0 then
  redis.call('DEL', items, data, overwrite, start, state)
  redis.call('ZREM', timer, ARGV[1])
  if string.sub(ARGV[1], 1, 1) == '-' then redis.call('ZREM', singles, ARGV[1]) end
elseif batch > 0 then -- without a batch the key was deleted meanwhile, and its new items have their time
  redis.call('DEL', overwrite)
  redis.call('HDEL', state, 'batch', 'delivery', 'attempts', 'next', 'error')
  redis.call('ZADD', timer, known[2] or redis.call('TIME')[1], ARGV[1])
  redis.call('PUBLISH', ARGV[2], 'insert')
end
redis.call('DEL', locker)
return left
