-- Puts a contact in front of a list of recent contacts, once. Begins with LPUSH, so that a Redis without memory
-- refuses it.
--
-- KEYS  1 recent
-- ARGV  1 contact  2 most contacts
-- Returns how many contacts there are
local call = redis.call
local known = #call('LPOS', KEYS[1], ARGV[1], 'COUNT', 0)
call('LPUSH', KEYS[1], ARGV[1])
if known > 0 then call('LREM', KEYS[1], -known, ARGV[1]) end -- from the end: the one in front stays
call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
return call('LLEN', KEYS[1])
