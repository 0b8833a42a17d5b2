-- Takes note of how calls of one target went, and moves the breaker of its origin:
--
--   closed --- threshold failures in a row ---> open --- its time is over ---> half-open, one probe
--      ^                                          ^                                 |        |
--      '------------------ success ---------------|---------------------------------'        |
--                                                 '------- failure: open twice as long ------'
--
-- KEYS  1 endpoints  2 endpoint  3 breaker of its origin
-- ARGV  1 URL  2 ok|refused|down (refused: it answered, but not with success)  3 calls  4 last status
--       5 ms the receiver asked to wait, 0 none  6 "" or why the endpoint is to be disabled
--       7 threshold  8 first open ms  9 longest open ms  10 ms to remember an endpoint
-- Returns {"closed"|"open", ms it stays open}
local endpoint, breaker = KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HDEL', breaker, '') -- opens the way as in get.lua
redis.call('ZADD', KEYS[1], string.format('%.3f', now / 1000), ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -10001) -- the list is for people
redis.call('HINCRBY', endpoint, ARGV[2] == 'ok' and 'delivered' or 'failed', ARGV[3])
redis.call('HSET', endpoint, 'status', ARGV[4], 'at', now)
if tonumber(ARGV[5]) > 0 then
  local held = tonumber(redis.call('HGET', endpoint, 'held') or 0)
  redis.call('HSET', endpoint, 'held', math.max(held, now + tonumber(ARGV[5])))
end
if ARGV[6] ~= '' then redis.call('HSET', endpoint, 'disabled', ARGV[6]) end
local lasting = redis.call('HMGET', endpoint, 'disabled', 'paused')
if lasting[1] or lasting[2] then
  redis.call('PERSIST', endpoint)
else
  redis.call('PEXPIRE', endpoint, ARGV[10])
end

if ARGV[2] ~= 'down' then
  redis.call('DEL', breaker)
  return { 'closed', 0 }
end
local failures = redis.call('HINCRBY', breaker, 'failures', 1)
local halfOpen = redis.call('HEXISTS', breaker, 'until') == 1
redis.call('PEXPIRE', breaker, ARGV[10])
if failures < tonumber(ARGV[7]) and not halfOpen then return { 'closed', 0 } end
local open = tonumber(redis.call('HGET', breaker, 'until') or 0)
if open > now then return { 'open', open - now } end -- a straggler from before it opened
local opens = redis.call('HINCRBY', breaker, 'opens', 1)
local ms = math.min(tonumber(ARGV[9]), tonumber(ARGV[8]) * 2 ^ math.min(opens - 1, 30))
redis.call('HSET', breaker, 'until', now + ms)
redis.call('HDEL', breaker, 'probe')
return { 'open', ms }
