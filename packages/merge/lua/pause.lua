-- Pauses one key: get.lua does not return it until it is resumed. A key may be paused before it has items.
--
-- KEYS  1 paused keys
-- ARGV  1 key  2 maximum of paused keys
-- Returns 1, or 0 if the maximum is reached
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 1 end
if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
return redis.call('SADD', KEYS[1], ARGV[1])
