-- Moves one due item of the documented delayed zset to its list, unless another program did.
--
-- KEYS  1 delayed:, 2 the list
-- ARGV  1 the item
-- Returns 1 if this call moved it.
if redis.call("ZREM", KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call("RPUSH", KEYS[2], ARGV[1])
return 1
