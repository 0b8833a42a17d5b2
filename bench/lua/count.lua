-- Adds one to a counter and keeps the payload beside it.
-- KEYS  1 counter (string), 2 payload (string)
-- ARGV  1 payload
-- Returns the counter's new value
redis.call("SET", KEYS[2], ARGV[1])
return redis.call("INCR", KEYS[1])
