-- Removes the delivered part of a batch, keeps the failed items in front and in order, and unlocks.
-- A batch is at most as large as get.lua returned it, and so are the reads here.
--
-- KEYS  1-11 the unit
-- ARGV  1 key  2 channel  3 token  4 ms until it is handed out again  5 id of the smaller batch
--       6 why it failed  7.. positions of the failed items in the batch, from 0, rising
-- Returns items that failed, -1 if the token does not hold the lock, or -2 if the batch was deleted; then
--       nothing has changed
local timer, queue, items, _, locker, _, _, state = unpack(KEYS)
local call = redis.call
if call('GET', locker) ~= ARGV[3] then return -1 end
local batch = tonumber(call('HGET', state, 'batch') or 0)
if batch == 0 then return -2 end

local positions, failed = {}, 0
for i = 7, #ARGV do positions[i - 6] = ARGV[i] + 1 end -- a word that is not a number fails here
local lists = { queue, items }
local all = { call('LRANGE', queue, 0, batch - 1), call('LRANGE', items, 0, batch - 1) }
local time = call('TIME')
call('DEL', locker)
for l = 1, 2 do
  call('LTRIM', lists[l], batch, -1)
  failed = 0
  for i = #positions, 1, -1 do
    local item = all[l][positions[i]]
    if item then
      call('LPUSH', lists[l], item)
      failed = failed + 1
    end
  end
end
call('HSET', state, 'batch', failed, 'delivery', ARGV[5], 'error', ARGV[6])
call('ZADD', timer, string.format('%.3f', time[1] + time[2] / 1e6 + tonumber(ARGV[4]) / 1000), ARGV[1])
redis.pcall('PUBLISH', ARGV[2], 'insert')
return failed
