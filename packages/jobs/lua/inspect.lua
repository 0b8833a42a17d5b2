-- One job with all that is known of it; on request its caller is told when it ends.
--
-- KEYS  the queue's, in the order of keys.ts
-- ARGV  1 id, 2 "1" to be told on the results channel when it ends, if it has not
-- Returns nil, or {state, record, notes JSON or nil, token or nil, due ms or nil}.
local _, JOBS, _, _, _, _, _, DELAYED, ACTIVE, _, NOTES, COMPLETED, FAILED, _, BLOCKED, _, _, WAITED = unpack(KEYS)
local id = ARGV[1]
local record = redis.call("HGET", JOBS, id)
if not record then return false end

local state, token, due = "waiting", redis.call("HGET", ACTIVE, id), false
if token then
  state = "active"
elseif redis.call("ZSCORE", COMPLETED, id) then
  state = "completed"
elseif redis.call("ZSCORE", FAILED, id) then
  state = "failed"
elseif redis.call("ZSCORE", BLOCKED, id) then
  state = "blocked"
else
  due = redis.call("ZSCORE", DELAYED, id)
  if due then state = "delayed" end
end
if ARGV[2] == "1" and state ~= "completed" and state ~= "failed" then redis.call("SADD", WAITED, id) end
return { state, record, redis.call("HGET", NOTES, id), token, due }
