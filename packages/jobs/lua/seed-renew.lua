-- Extends the lease of a taken item.
--
-- KEYS  1 zset token -> ms when the lease expires
-- ARGV  1 the token, 2 lease ms
-- Returns 1, or 0 if the item is not held with this token.
local time = redis.call("TIME")
-- Removed first: lets this work while Redis is out of memory.
if redis.call("ZREM", KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call("ZADD", KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2], ARGV[1])
return 1
