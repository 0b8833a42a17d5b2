-- The least that a delayed queue must do for a push.
-- KEYS  1 list  2 timer
-- ARGV  1 key  2 time  3 body
-- Returns the length of the list
local length = redis.call('RPUSH', KEYS[1], ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
return length
