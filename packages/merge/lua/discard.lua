-- Deletes a dead letter.
--
-- KEYS  1-6 the letter
-- ARGV  1 id of the letter
-- Returns items deleted, or -1 if there is no such letter
local dead, record, bodies, items, data, deadOf = unpack(KEYS)
if redis.call('EXISTS', record) == 0 then return -1 end
local count = redis.call('LLEN', bodies)
redis.call('UNLINK', record, bodies, items, data)
redis.call('ZREM', dead, ARGV[1])
redis.call('ZREM', deadOf, ARGV[1])
return count
