-- Pushes one wake-up to the list of a process.
--
-- PEXPIRE comes first because Redis refuses RPUSH without memory only as the first write of a script:
-- waking a waiter must work then, since a waiter may be who frees memory.
--
-- KEYS  1 list
-- ARGV  1 message  2 ms after which a list that nobody reads is removed
-- Returns 1
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
