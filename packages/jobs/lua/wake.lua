-- Tells an idle worker that there may be work.
--
-- KEYS  1 wake
-- Returns 1, or 0 if it was told already.
-- Removing something first lets this script work while Redis is out of memory.
redis.call("ZREM", KEYS[1], "")
return redis.call("ZADD", KEYS[1], 0, "0")
