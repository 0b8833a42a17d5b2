-- Adds a queue's name to the set that tools list.
--
-- KEYS  1 the set of names
-- ARGV  1 the name
-- Returns 1 if the name is new.
-- Removing something first lets this script work while Redis is out of memory: a new worker must be able
-- to start and drain then.
redis.call("SREM", KEYS[1], "")
return redis.call("SADD", KEYS[1], ARGV[1])
