-- Keeps the recurring jobs: writes, removes and fires them. A schedule fires once per due time, whoever
-- calls first: the others find another due time than the one they saw.
--
-- KEYS  1 jobs, 2 delayed, 3 completed, 4 failed, 5 schedules, 6 plan
-- ARGV  1 the control channel, 2 schedule id, 3 verb
--       "set"    4 description (JSON), 5 next due ms: writes or replaces it
--       "remove"
--       "fire"   4 due ms as seen, 5 next due ms or -1 for never again, 6 job id, 7 record without its
--                first field or "" to add nothing, 8 "1" not to add while the job before is unfinished
-- Returns 1, or 0 if there was nothing (any more) to do; for "fire" 2 if the job was skipped.
local JOBS, DELAYED, COMPLETED, FAILED, SCHEDULES, PLAN = unpack(KEYS)
local CONTROL, id, verb = ARGV[1], ARGV[2], ARGV[3]

if verb == "set" then
  redis.call("HSET", SCHEDULES, "s" .. id, ARGV[4])
  redis.call("ZADD", PLAN, ARGV[5], id)
  redis.call("PUBLISH", CONTROL, "plan")
  return 1
elseif verb == "remove" then
  redis.call("ZREM", PLAN, id)
  redis.call("HDEL", SCHEDULES, "l" .. id)
  return redis.call("HDEL", SCHEDULES, "s" .. id)
end

local due = redis.call("ZSCORE", PLAN, id)
if not due or tonumber(due) ~= tonumber(ARGV[4]) then return 0 end
if ARGV[5] == "-1" then
  redis.call("ZREM", PLAN, id)
else
  redis.call("ZADD", PLAN, ARGV[5], id)
end
if ARGV[7] == "" then return 1 end
if ARGV[8] == "1" then
  local last = redis.call("HGET", SCHEDULES, "l" .. id)
  if last
    and redis.call("HEXISTS", JOBS, last) == 1
    and not redis.call("ZSCORE", COMPLETED, last)
    and not redis.call("ZSCORE", FAILED, last)
  then
    return 2
  end
end
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("HSET", JOBS, ARGV[6], now .. ARGV[7])
redis.call("ZADD", DELAYED, now, ARGV[6])
redis.call("HSET", SCHEDULES, "l" .. id, ARGV[6])
redis.call("PUBLISH", CONTROL, "due")
return 1
