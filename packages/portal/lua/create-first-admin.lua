-- Creates an account if, and only if, there is no account at all.
-- KEYS[1] set of account names   KEYS[2] hash of the new account
-- ARGV[1] its name   ARGV[2] argon2id hash of its password   ARGV[3] role
-- Returns 1 if it was created, 0 if there was an account already.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], 'password', ARGV[2], 'role', ARGV[3], 'generation', 1,
  'createdAt', now, 'passwordAt', now)
return 1
