-- Removes the delivered part of a batch, keeps the failed items in front and in order, and unlocks.
--
-- KEYS  1-9 the unit
-- ARGV  1 key  2 channel  3 token  4 new time in seconds  5 id of the smaller batch  6 why it failed
--       7.. positions of the failed items in the batch, from 0, rising
-- Returns items that failed, or -1 if the token does not hold the lock
local timer, queue, items, _, locker, _, _, state = unpack(KEYS)
if redis.call('GET', locker) ~= ARGV[3] then return -1 end
redis.call('DEL', locker)
local batch = tonumber(redis.call('HGET', state, 'batch') or 0)
if batch == 0 then return 0 end -- deleted meanwhile

local failed = 0
for _, list in ipairs({ queue, items }) do
  local all = redis.call('LRANGE', list, 0, batch - 1)
  redis.call('LTRIM', list, batch, -1)
  failed = 0
  for i = #ARGV, 7, -1 do
    local item = all[tonumber(ARGV[i]) + 1]
    if item then
      redis.call('LPUSH', list, item)
      failed = failed + 1
    end
  end
end
redis.call('HSET', state, 'batch', failed, 'delivery', ARGV[5], 'error', ARGV[6])
redis.call('ZADD', timer, ARGV[4], ARGV[1])
redis.call('PUBLISH', ARGV[2], 'insert')
return failed
