-- The least that firing one key must do.
-- KEYS  1 list  2 timer
-- ARGV  1 key
-- Returns the items
local items = redis.call('LRANGE', KEYS[1], 0, -1)
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return items
