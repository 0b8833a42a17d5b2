-- Deletes everything that is queued under one key.
--
-- The lock stays with its holder: what it is sending cannot be called back, but it is not sent again,
-- and no other batch of this key overlaps it.
--
-- KEYS  1-9 the unit  10 paused keys
-- ARGV  1 key
-- Returns {items deleted, of which are being sent at this moment}
local timer, queue, items, data, locker, overwrite, start, state, singles = unpack(KEYS)
local length = redis.call('LLEN', queue)
local sending = 0
if redis.call('EXISTS', locker) == 1 then
  sending = math.min(tonumber(redis.call('HGET', state, 'batch') or 0), length)
end
redis.call('DEL', queue, items, data, overwrite, start, state)
redis.call('ZREM', timer, ARGV[1])
redis.call('ZREM', singles, ARGV[1])
if string.sub(ARGV[1], 1, 1) == '-' then redis.call('SREM', KEYS[10], ARGV[1]) end -- it never comes again
return { length, sending }
