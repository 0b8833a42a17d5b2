-- Opens a session of an account. If the account then has too many, those that are over are forgotten, and
-- the oldest of the others end.
-- KEYS[1] hash of the session   KEYS[2] sorted set: the keys of the account's sessions, in the
-- order in which they began, by microseconds   KEYS[3] the mark of a Redis with sessions
-- ARGV[1] user   ARGV[2] the account's generation   ARGV[3] ms it may be idle   ARGV[4] ms it may last
-- ARGV[5] how many the account may have; KEYS[2] never holds more
-- Returns when it ends at the latest, in ms since 1970.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expiresAt = now + ARGV[4]
redis.call('SET', KEYS[3], '1')
redis.call('HSET', KEYS[1], 'user', ARGV[1], 'generation', ARGV[2], 'expiresAt', expiresAt)
redis.call('PEXPIRE', KEYS[1], math.min(ARGV[3], ARGV[4]))
-- Behind all others, also within the same moment or after the clock was set back: the newest never ends.
local newest = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
local micros = time[1] * 1000000 + time[2]
redis.call('ZADD', KEYS[2], math.max(micros, (tonumber(newest) or 0) + 1), KEYS[1])
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[4]) then
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
if redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[5]) then
  for _, session in ipairs(redis.call('ZRANGE', KEYS[2], 0, ARGV[5])) do
    if redis.call('EXISTS', session) == 0 then
      redis.call('ZREM', KEYS[2], session)
    end
  end
  local surplus = redis.call('ZCARD', KEYS[2]) - ARGV[5]
  if surplus > 0 then
    for _, session in ipairs(redis.call('ZRANGE', KEYS[2], 0, surplus - 1)) do
      redis.call('DEL', session)
      redis.call('ZREM', KEYS[2], session)
    end
  end
end
return expiresAt
