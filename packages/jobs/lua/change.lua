-- What an operator does to one job.
--
-- KEYS  the queue's, in the order of keys.ts
-- ARGV  1 the control channel, 2 id,
--       3 "remove"  forgets a job that is not running
--         "cancel"  asks the handler of a running job to stop, forgets any other
--         "promote" ends a delay
--         "retry"   runs an ended job again, with all its attempts
--         "update"  gives a job that has not started other data (ARGV 4)
--       4 the reason of a cancel, or the new data
-- Returns "done", "signalled", "missing", or the state that does not allow it.
local META, JOBS, WAIT, PRIO, GROUPS, GROUPED, TENANTS, DELAYED, ACTIVE, _, NOTES, COMPLETED, FAILED, KIDS, BLOCKED, DEDUPE, ALARMS, WAITED, CANCELS, _, EVENTS =
  unpack(KEYS)
local CONTROL, id, verb = ARGV[1], ARGV[2], ARGV[3]

-- Options that are no JSON count as none: a malformed job must not stop the others.
local function optionsOf(text)
  if not text or text == "" then return {} end
  local ok, options = pcall(cjson.decode, text)
  return ok and type(options) == "table" and options or {}
end

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local record = redis.call("HGET", JOBS, id)
if not record then return "missing" end
local created, attempts, stalls, opts, rest = string.match(record, "^(%d+);(%d+);(%d+);([^\n]*)(.*)$")
local o = optionsOf(opts)

local state = "waiting"
if redis.call("HEXISTS", ACTIVE, id) == 1 then
  state = "active"
elseif redis.call("ZSCORE", COMPLETED, id) then
  state = "completed"
elseif redis.call("ZSCORE", FAILED, id) then
  state = "failed"
elseif redis.call("ZSCORE", BLOCKED, id) then
  state = "blocked"
elseif redis.call("ZSCORE", DELAYED, id) then
  state = "delayed"
end

local function leaveLane()
  if state == "completed" then
    redis.call("ZREM", COMPLETED, id)
  elseif state == "failed" then
    redis.call("ZREM", FAILED, id)
  elseif state == "blocked" then
    redis.call("ZREM", BLOCKED, id)
  elseif state == "delayed" then
    redis.call("ZREM", DELAYED, id)
  elseif o.g then
    local members = redis.call("ZRANGEBYLEX", GROUPED, "[" .. o.g .. "\0", "(" .. o.g .. "\1")
    for _, member in ipairs(members) do
      if string.sub(member, #o.g + 21) == id then redis.call("ZREM", GROUPED, member) end
    end
    if #members == 1 then redis.call("ZREM", GROUPS, o.g) end
  elseif redis.call("ZREM", PRIO, id) == 0 then
    redis.call("LREM", WAIT, 1, id)
  end
end

local function remove()
  leaveLane()
  redis.call("ZREM", ALARMS, "j" .. id)
  if o.d and redis.call("HGET", DEDUPE, o.d) == "0:" .. id then redis.call("HDEL", DEDUPE, o.d) end
  if o.f and redis.call("HEXISTS", KIDS, id) == 0 and redis.call("HEXISTS", KIDS, "n" .. o.f) == 1 then
    -- A child that never ran: its parent waits for one less.
    if redis.call("HINCRBY", KIDS, "n" .. o.f, -1) <= 0 and redis.call("ZREM", BLOCKED, o.f) == 1 then
      redis.call("ZADD", DELAYED, now, o.f)
      redis.call("PUBLISH", CONTROL, "due")
    end
  end
  if o.n then
    redis.call("HDEL", KIDS, "n" .. id)
    for i = 0, o.n - 1 do redis.call("HDEL", KIDS, id .. "/" .. i) end
  end
  redis.call("HDEL", JOBS, id)
  redis.call("HDEL", NOTES, id)
  redis.call("SREM", WAITED, id)
  if tonumber(redis.call("HGET", META, "listen") or 0) > now then
    redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", "removed", "id", id)
  end
  return "done"
end

local function comeBack()
  redis.call("ZADD", DELAYED, now, id)
  redis.call("PUBLISH", CONTROL, "due")
  return "done"
end

if verb == "remove" then
  if state == "active" then return state end
  return remove()
elseif verb == "cancel" then
  if state ~= "active" then
    if state == "completed" or state == "failed" then return state end
    return remove()
  end
  redis.call("HSET", CANCELS, id, ARGV[4])
  redis.call("PUBLISH", CONTROL, "cancel " .. id)
  return "signalled"
elseif verb == "promote" then
  if state ~= "delayed" then return state end
  return comeBack()
elseif verb == "retry" then
  if state ~= "failed" and state ~= "completed" then return state end
  leaveLane()
  redis.call("ZREM", ALARMS, "j" .. id)
  if created then redis.call("HSET", JOBS, id, created .. ";0;0;" .. opts .. rest) end
  if o.d then redis.call("HSETNX", DEDUPE, o.d, "0:" .. id) end -- it holds its key again, if that is free
  return comeBack()
elseif verb == "update" then
  if state ~= "waiting" and state ~= "delayed" and state ~= "blocked" then return state end
  if not created then return "malformed" end
  local name = string.match(rest, "^\n([^\n]*)\n")
  redis.call("HSET", JOBS, id, created .. ";" .. attempts .. ";" .. stalls .. ";" .. opts .. "\n" .. name .. "\n" .. ARGV[4])
  return "done"
end
return redis.error_reply("unknown verb " .. verb)
