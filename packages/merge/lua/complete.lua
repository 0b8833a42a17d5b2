-- Removes exactly the batch that was handed out, and unlocks. If the key was emptied meanwhile
-- (remove.lua), only unlocks, and lets items that were pushed after that fire at their time.
--
-- KEYS  1-11 the unit
-- ARGV  1 key  2 channel  3 token
-- Returns items that are left, or -1 if the token does not hold the lock
local timer, queue, items, data, locker, overwrite, start, state, singles = unpack(KEYS)
local call = redis.call
if call('GET', locker) ~= ARGV[3] then return -1 end

local known = call('HMGET', state, 'batch', 'next', 'replayed')
local batch, replayed = tonumber(known[1] or 0), tonumber(known[3] or nil) or 0
local left = math.max(0, call('LLEN', queue) - math.max(0, batch))
if left == 0 and replayed == 0 then -- the usual end: one command deletes everything
  call('UNLINK', queue, items, data, overwrite, start, state, locker)
  call('ZREM', timer, ARGV[1])
  if string.sub(ARGV[1], 1, 1) == '-' then call('ZREM', singles, ARGV[1]) end
  return 0
end
if batch > 0 then
  call('LTRIM', queue, batch, -1)
  call('LTRIM', items, batch, -1)
end
call('DEL', overwrite)
call('HDEL', state, 'batch', 'delivery', 'attempts', 'error', 'ghost')
if replayed == 0 then call('HDEL', state, 'next') end
local due = replayed == 0 and tonumber(known[2] or nil) and known[2] or call('TIME')[1]
call('ZADD', timer, due, ARGV[1])
redis.pcall('PUBLISH', ARGV[2], 'insert')
call('DEL', locker)
return left + replayed
