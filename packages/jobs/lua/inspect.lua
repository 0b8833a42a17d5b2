-- One job with its record, state and notes. On request its end is published on the results channel.
--
-- KEYS  the queue's, up to OUTBOX
-- ARGV  1 id, 2 "1" to publish its end, if it has not ended
-- Returns nil, or {state, record, notes JSON or nil, token or nil, due ms or nil}.
local id = ARGV[1]
local record = redis.call("HGET", JOBS, id)
if not record then return false end

local state, token, at = "waiting", redis.call("HGET", ACTIVE, id), false
if token then
  state = "active"
elseif redis.call("ZSCORE", COMPLETED, id) then
  state = "completed"
elseif redis.call("ZSCORE", FAILED, id) then
  state = "failed"
elseif redis.call("ZSCORE", BLOCKED, id) then
  state = "blocked"
else
  at = redis.call("ZSCORE", DELAYED, id)
  if at then state = "delayed" end
end
if ARGV[2] == "1" and state ~= "completed" and state ~= "failed" then
  redis.call("SREM", AWAITED, "") -- removing something first lets this script work while Redis is out of memory
  redis.call("SADD", AWAITED, id)
end
return { state, record, redis.call("HGET", NOTES, id), token, at }
