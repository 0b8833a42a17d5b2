-- Says whether a target may be called now.
--
-- KEYS  1 endpoint  2 breaker of its origin
-- ARGV  1 ms after which a probe that never reported is forgotten  2 ms to wait for a probe
--       3 ms to wait for an endpoint that is paused
-- Returns {"go"} | {"probe"} this call decides whether the breaker closes | {"disabled", reason}
--       | {"hold", ms, why}
local known = redis.call('HMGET', KEYS[1], 'disabled', 'held', 'paused')
if known[1] then return { 'disabled', known[1] } end
if known[3] then return { 'hold', tonumber(ARGV[3]), 'the endpoint is paused' } end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = tonumber(known[2] or 0)
if held > now then return { 'hold', held - now, 'the receiver asked to wait' } end

local breaker = redis.call('HMGET', KEYS[2], 'until', 'probe')
local open = tonumber(breaker[1] or 0)
if open == 0 then return { 'go' } end
if open > now then return { 'hold', open - now, 'the circuit breaker is open' } end
local probe = tonumber(breaker[2] or 0)
if probe > now then
  -- It will be known soon, long before a probe that never reports is forgotten.
  return { 'hold', math.min(probe - now, tonumber(ARGV[2])), 'the circuit breaker waits for a probe' }
end
redis.call('HDEL', KEYS[2], '') -- opens the way as in get.lua
redis.call('HSET', KEYS[2], 'probe', now + ARGV[1])
return { 'probe' }
