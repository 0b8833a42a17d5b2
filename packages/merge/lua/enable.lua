-- Allows calls to an endpoint again, after a 410, a pause, a hold or an open breaker.
--
-- KEYS  1 endpoint  2 breaker of its origin  3 marked  4 breakers
-- ARGV  1 URL  2 ms to remember an endpoint that has neither limits nor secrets  3 origin
-- Returns 1, or 0 if the endpoint is not known
local call = redis.call
if call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  call('ZREM', KEYS[3], ARGV[1])
  return 0
end
call('HDEL', KEYS[1], 'disabled', 'paused', 'held', 'heldMs')
call('DEL', KEYS[2])
call('ZREM', KEYS[4], ARGV[3])
local lasting = call('HMGET', KEYS[1], 'rate', 'concurrency', 'secrets')
if not lasting[1] and not lasting[2] and not lasting[3] then
  call('ZREM', KEYS[3], ARGV[1])
  call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
