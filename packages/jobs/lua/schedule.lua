-- Manages recurring jobs: writes, removes and fires them. A schedule fires once per due time: the first
-- caller wins, and the others find a due time that differs from the one they saw.
--
-- KEYS  the queue's, all
-- ARGV  1 schedule id, 2 verb
--       "set"    3 description (JSON), 4 first due ms, 5 first due ms without an immediate run, or -1: writes or
--                replaces it. If its times are unchanged, it continues as before: a run that is overdue
--                stays due, there is no other immediate run, and earlier runs count towards the limit.
--       "remove"
--       "stop"   3 due ms as seen: never due again, because the description cannot be read
--       "replan" 3 due ms as seen, 4 next due ms: the clock was set back
--       "fire"   3 due ms as seen, 4 next due ms or -1 for never again, 5 job id, 6 its place (as for
--                add.lua), 7 record without its first field, 8 "1" to skip the run while the previous job is
--                unfinished, 9 the number of runs after which it ends, or ""
-- Returns 1, or 0 if there was nothing to do; for "fire" 2 if the job was skipped.
local id, verb = ARGV[1], ARGV[2]
local problem = wrongType(1, #KEYS)
if problem then return problem end

local function sameTimes(old, new)
  local ok, was = pcall(cjson.decode, old or "")
  if not ok or type(was) ~= "table" then return false end
  for _, name in ipairs({ "cron", "timeZone", "everyMs", "startAt", "endAt", "limit" }) do
    if was[name] ~= new[name] then return false end
  end
  return true
end

local function remove()
  redis.call("ZREM", PLAN, id)
  redis.call("HDEL", SCHEDULES, "l" .. id, "n" .. id)
  return redis.call("HDEL", SCHEDULES, "s" .. id)
end

if verb == "set" then
  local at, times = tonumber(ARGV[4]), cjson.decode(ARGV[3])
  local pending = tonumber(redis.call("ZSCORE", PLAN, id))
  if not sameTimes(redis.call("HGET", SCHEDULES, "s" .. id), times) then
    redis.call("HDEL", SCHEDULES, "n" .. id)
  elseif pending then
    local regular = tonumber(ARGV[5])
    at = regular < 0 and pending or math.min(regular, pending)
  else
    local runs = tonumber(redis.call("HGET", SCHEDULES, "n" .. id) or 0)
    if runs > 0 then at = tonumber(ARGV[5]) end -- there was an immediate run
    if runs > 0 and at < 0 or times.limit and runs >= times.limit then at = nil end -- the schedule has ended
  end
  redis.call("HSET", SCHEDULES, "s" .. id, ARGV[3])
  if at then redis.call("ZADD", PLAN, at, id) end
  publish("control", "plan")
  return 1
elseif verb == "remove" then
  return remove()
end

local at = redis.call("ZSCORE", PLAN, id)
if not at or tonumber(at) ~= tonumber(ARGV[3]) then return 0 end
if verb == "stop" then
  redis.call("ZREM", PLAN, id)
  return 1
elseif verb == "replan" then
  redis.call("ZADD", PLAN, ARGV[4], id)
  return 1
end
if ARGV[4] == "-1" then
  redis.call("ZREM", PLAN, id)
else
  redis.call("ZADD", PLAN, ARGV[4], id)
end
local last = ARGV[8] == "1" and redis.call("HGET", SCHEDULES, "l" .. id)
if last
  and redis.call("HEXISTS", JOBS, last) == 1
  and not redis.call("ZSCORE", COMPLETED, last)
  and not redis.call("ZSCORE", FAILED, last)
then
  return 2
end
local job = ARGV[5]
if redis.call("HSETNX", JOBS, job, now .. ARGV[7]) == 0 then
  -- The clock was set back: the job of an earlier run at this time is still kept.
  job = job .. "#" .. (redis.call("HGET", SCHEDULES, "n" .. id) or 0)
  if redis.call("HSETNX", JOBS, job, now .. ARGV[7]) == 0 then return 2 end
end
local how = ARGV[6] == "" and {} or cjson.decode(ARGV[6])
if how.w then redis.call("SADD", AWAITED, job) end
if how.g or how.p then
  placeOrdered(job, how, false)
else
  redis.call(how.l and "LPUSH" or "RPUSH", WAIT, job)
end
redis.call("HSET", SCHEDULES, "l" .. id, job)
local runs, limit = redis.call("HINCRBY", SCHEDULES, "n" .. id, 1), tonumber(ARGV[9])
if limit and runs >= limit then redis.call("ZREM", PLAN, id) end
redis.call("ZADD", WAKE, 0, "0")
listening = isLater(redis.call("HGET", META, "listen"))
emit("added", job)
return 1
