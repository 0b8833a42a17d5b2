-- Removes items that can never be delivered from a batch and makes them a dead letter. The rest of the
-- batch is due again at once. The reads are bounded as in settle.lua.
--
-- KEYS  1-11 the unit, 12-17 the letter
-- ARGV  1 key  2 channel  3 token  4 id of the letter  5 reason  6.. positions in the batch, from 0, rising
-- Returns items taken out, -1 if the token does not hold the lock, or -2 if the batch was deleted; then
--       nothing has changed
local timer, queue, items, data, locker, overwrite, start, state, singles = unpack(KEYS)
local dead, record, deadBodies, deadItems, _, deadOf = unpack(KEYS, 12)
local call = redis.call
if call('GET', locker) ~= ARGV[3] then return -1 end
local known = call('HMGET', state, 'batch', 'next', 'replayed', 'request')
local batch, replayed = tonumber(known[1] or 0), tonumber(known[3] or nil) or 0
if batch == 0 then return -2 end
call('ZCARD', dead)
call('ZCARD', deadOf)
call('ZCARD', singles)

local rejected, count = {}, 0
for i = 6, #ARGV do rejected[tonumber(ARGV[i])] = true end
local lists, graves = { queue, items }, { deadBodies, deadItems }
local all = { call('LRANGE', queue, 0, batch - 1), call('LRANGE', items, 0, batch - 1) }
call('DEL', locker)
for l = 1, 2 do
  call('LTRIM', lists[l], batch, -1)
  count = 0
  for i = #all[l], 1, -1 do
    if rejected[i - 1] then
      call('LPUSH', graves[l], all[l][i])
      count = count + 1
    else
      call('LPUSH', lists[l], all[l][i])
    end
  end
end

local time = call('TIME')
local now = string.format('%d.%03d', time[1], math.floor(time[2] / 1000))
call('HSET', record, 'key', ARGV[1], 'reason', ARGV[5], 'items', count, 'at', now,
  'attempts', 0, 'delivery', '', 'request', known[4] or '')
call('ZADD', dead, now, ARGV[4])
call('ZADD', deadOf, now, ARGV[4])
if call('LLEN', queue) == 0 and replayed == 0 then
  call('UNLINK', items, data, overwrite, start, state)
  call('ZREM', timer, ARGV[1])
  call('ZREM', singles, ARGV[1])
  return count
end
if batch == count then -- only fresh and replayed items are left
  if replayed == 0 then now = tonumber(known[2] or nil) and known[2] or now end
  call('HDEL', state, 'batch', 'delivery', 'attempts', 'error')
  if replayed == 0 then call('HDEL', state, 'next') end
else
  call('HINCRBY', state, 'attempts', -1)
  call('HSET', state, 'batch', batch - count)
end
call('ZADD', timer, now, ARGV[1])
redis.pcall('PUBLISH', ARGV[2], 'insert')
return count
