-- Keeps a session of an account whose password has changed: it belongs to the new generation.
-- KEYS[1] hash of the session (may not exist)
-- ARGV[1] the account's new generation
-- Returns 1 if the session goes on, 0 if there is none.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], 'generation', ARGV[1])
return 1
