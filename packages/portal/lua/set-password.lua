-- Replaces an account's password, unless someone else did so first. A new generation ends every session
-- of the account but the one that is given.
-- KEYS[1] hash of the account   KEYS[2] hash of the session that stays (may not exist)
-- ARGV[1] password hash that was read   ARGV[2] new one   ARGV[3] '1' for a new generation, '0' to keep it
-- Returns 1 if it was replaced, 0 if the password is no longer the one that was read.
if redis.call('HGET', KEYS[1], 'password') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'password', ARGV[2])
if ARGV[3] == '1' then
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'passwordAt', time[1] * 1000 + math.floor(time[2] / 1000))
  local generation = redis.call('HINCRBY', KEYS[1], 'generation', 1)
  if redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('HSET', KEYS[2], 'generation', generation)
  end
end
return 1
