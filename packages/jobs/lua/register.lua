-- Makes a queue's name known to tools that list queues.
--
-- KEYS  1 the set of names
-- ARGV  1 the name
-- Returns 1 if it was not known.
-- Removing something first lets this script work while Redis is out of memory: a new worker must be able
-- to start and drain then.
redis.call("SREM", KEYS[1], "")
return redis.call("SADD", KEYS[1], ARGV[1])
