-- Puts a contact in front of a list of recent contacts, once.
--
-- KEYS  1 recent
-- ARGV  1 contact  2 most contacts
-- Returns how many contacts there are
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
return redis.call('LLEN', KEYS[1])
