-- Reads a session and lets it live on: as long as it may be idle, but never beyond its end.
-- KEYS[1] hash of the session
-- ARGV[1] ms it may be idle
-- Returns {user, generation, expiresAt}, or nil if there is no such session.
local session = redis.call('HMGET', KEYS[1], 'user', 'generation', 'expiresAt')
if not session[1] then
  return nil
end
local time = redis.call('TIME')
local left = session[3] - (time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('PEXPIRE', KEYS[1], math.min(ARGV[1], left))
return session
