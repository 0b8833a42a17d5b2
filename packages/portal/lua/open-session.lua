-- Opens a session of an account.
-- KEYS[1] hash of the session
-- ARGV[1] user   ARGV[2] the account's generation   ARGV[3] ms it may be idle   ARGV[4] ms it may last
-- Returns when it ends at the latest, in ms since 1970.
local time = redis.call('TIME')
local expiresAt = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[4]
redis.call('HSET', KEYS[1], 'user', ARGV[1], 'generation', ARGV[2], 'expiresAt', expiresAt)
redis.call('PEXPIRE', KEYS[1], math.min(ARGV[3], ARGV[4]))
return expiresAt
