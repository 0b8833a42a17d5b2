-- Wakes an idle worker, because there may be work.
--
-- KEYS  1 wake
-- Returns 1, or 0 if a wake-up is already there.
-- Removing something first lets this script work while Redis is out of memory.
redis.call("ZREM", KEYS[1], "")
return redis.call("ZADD", KEYS[1], 0, "0")
