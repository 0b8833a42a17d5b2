-- Records the results of calls to one endpoint, and changes the breaker of its origin:
--
--   closed --- threshold failures in a row ---> open --- its time is over ---> half-open, one probe
--      ^                                          ^                                 |        |
--      '------------------ success ---------------|---------------------------------'        |
--                                                 '------- failure: open twice as long ------'
--
-- A record expires some time after its last use, unless an operator has changed it (KEYS 4). A foreign value
-- in place of a record is left unchanged, and the other record is written.
--
-- KEYS  1 endpoints  2 endpoint  3 breaker of its origin  4 marked  5 calls under way  6 breakers
-- ARGV  1 URL  2 ok|refused|down (refused: it responded, but not with success)  3 calls  4 last status
--       5 ms the endpoint asked to wait, 0 none  6 "" or why the endpoint is to be disabled
--       7 threshold  8 first open ms  9 longest open ms  10 ms to remember an endpoint
--       11 "" or the token of a call that has ended  12 maximum of endpoints  13 origin
--       14 ms after which admit.lua would have forgotten the call
-- Returns {"closed"|"open", ms it stays open}
local call = redis.call
local endpoint, breaker = KEYS[2], KEYS[3]
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A field that is a number; 0 if it is missing, or if another program wrote a value that is not a number.
local function number(text)
  local value = text and tonumber(text) or 0
  return value - value == 0 and value or 0
end
local function isForeign(key)
  local reply = redis.pcall('HDEL', key, '')
  return type(reply) == 'table' and string.find(reply.err, 'WRONGTYPE')
end
local noBreaker, noEndpoint = isForeign(breaker), isForeign(endpoint) -- allows the later writes, as in get.lua
if ARGV[11] ~= '' then
  local forgotten = call('ZSCORE', KEYS[5], ARGV[11])
  if forgotten and not noEndpoint then -- a moving average of how long calls take
    local took = math.max(0, now - (forgotten - ARGV[14]))
    took = math.min(took, tonumber(ARGV[14])) -- it can only have been longer if the clock was set
    local known = number(call('HGET', endpoint, 'took') or took)
    call('HSET', endpoint, 'took', math.floor(known + (took - known) / 4 + 0.5))
  end
  call('ZREM', KEYS[5], ARGV[11])
end
local score = string.format('%.3f', now / 1000)
if call('ZADD', KEYS[1], score, ARGV[1]) == 1 then
  local excess = call('ZCARD', KEYS[1]) - tonumber(ARGV[12])
  if excess > 0 then
    local oldest = call('ZRANGE', KEYS[1], 0, math.min(excess, 10) - 1)
    for i = 1, #oldest do
      if call('ZSCORE', KEYS[4], oldest[i]) then
        call('ZADD', KEYS[1], score, oldest[i])
      else
        call('ZREM', KEYS[1], oldest[i])
      end
    end
  end
end
if not noEndpoint then
  redis.pcall('HINCRBY', endpoint, ARGV[2] == 'ok' and 'delivered' or 'failed', ARGV[3])
  call('HSET', endpoint, 'status', ARGV[4], 'at', now)
  if tonumber(ARGV[5]) > 0 then
    local known = call('HMGET', endpoint, 'held', 'heldMs')
    local left, heldMs = number(known[1]) - now, number(known[2])
    if heldMs > 0 and left > heldMs then left = 0 end -- the clock was set back
    local ms = math.max(left, tonumber(ARGV[5]))
    call('HSET', endpoint, 'held', now + ms, 'heldMs', ms)
  end
  if ARGV[6] ~= '' then call('HSET', endpoint, 'disabled', ARGV[6]) end
  if not call('ZSCORE', KEYS[4], ARGV[1]) then call('PEXPIRE', endpoint, ARGV[10]) end
end

if noBreaker then return { 'closed', 0 } end
if ARGV[2] ~= 'down' then
  if call('DEL', breaker) == 1 then call('ZREM', KEYS[6], ARGV[13]) end
  return { 'closed', 0 }
end
local failures = call('HINCRBY', breaker, 'failures', 1)
local halfOpen = call('HEXISTS', breaker, 'until') == 1
call('PEXPIRE', breaker, ARGV[10])
if failures < tonumber(ARGV[7]) and not halfOpen then return { 'closed', 0 } end
local known = call('HMGET', breaker, 'until', 'openMs')
local left, openMs = number(known[1]) - now, number(known[2])
if left > 0 and (openMs == 0 or left <= openMs) then -- a late report of a call from before it opened
  return { 'open', left }
end
local opens = call('HINCRBY', breaker, 'opens', 1)
local ms = math.min(tonumber(ARGV[9]), tonumber(ARGV[8]) * 2 ^ math.min(opens - 1, 30))
call('HSET', breaker, 'until', now + ms, 'openMs', ms)
call('ZADD', KEYS[6], now + ms, ARGV[13])
call('ZREMRANGEBYSCORE', KEYS[6], '-inf', now - tonumber(ARGV[10])) -- breakers whose record has expired
call('HDEL', breaker, 'probe')
return { 'open', ms }
