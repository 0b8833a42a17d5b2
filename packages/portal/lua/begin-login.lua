-- Counts a login that is about to be tried, before anyone looks at its password, so that many tries at
-- once get no further than many in a row. Each key allows some tries freely; each one after those
-- doubles the time until the next is looked at. A login that succeeds takes its count back (end-login).
-- KEYS[i] hash of one throttle: count, until (at most 3 keys)
-- ARGV[1] ms of the first wait   ARGV[2] ms after which all is forgotten
-- ARGV[2i+1] free tries of KEYS[i]   ARGV[2i+2] ms of its longest wait
-- Returns ms to wait if the login must not be tried, 0 if it may.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local wait = 0
for _, key in ipairs(KEYS) do
  wait = math.max(wait, (redis.call('HGET', key, 'until') or 0) - now)
end
if wait > 0 then
  return wait
end
for i, key in ipairs(KEYS) do
  local over = redis.call('HINCRBY', key, 'count', 1) - ARGV[2 * i + 1]
  if over >= 0 then
    local pause = math.min(ARGV[1] * 2 ^ math.min(over, 30), ARGV[2 * i + 2])
    redis.call('HSET', key, 'until', string.format('%.0f', now + pause))
  end
  redis.call('PEXPIRE', key, ARGV[2])
end
return 0
