-- Forgets jobs that wait or have ended, a bounded number per call; running jobs are left alone.
--
-- KEYS  the queue's, in the order of keys.ts
-- ARGV  1 "waiting" | "delayed" | "blocked" | "completed" | "failed", 2 how many at most,
--       3 only those that ended at least so many ms ago (completed and failed)
-- Returns how many were forgotten.
local _, JOBS, WAIT, PRIO, GROUPS, GROUPED, _, DELAYED, _, _, NOTES, COMPLETED, FAILED, KIDS, BLOCKED, DEDUPE, ALARMS =
  unpack(KEYS)
local state, limit, age = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local ids = {}
local function take(list, step)
  for i = 1, #list, step do ids[#ids + 1] = list[i] end
end
if state == "waiting" then
  take(redis.call("LPOP", WAIT, limit) or {}, 1)
  if #ids < limit then take(redis.call("ZPOPMIN", PRIO, limit - #ids), 2) end
  if #ids < limit then
    local members = redis.call("ZPOPMIN", GROUPED, limit - #ids)
    for i = 1, #members, 2 do
      ids[#ids + 1] = string.sub(members[i], string.find(members[i], "\0", 1, true) + 20)
    end
    if redis.call("ZCARD", GROUPED) == 0 then redis.call("DEL", GROUPS) end
  end
elseif state == "delayed" then
  take(redis.call("ZPOPMIN", DELAYED, limit), 2)
elseif state == "blocked" then
  take(redis.call("ZPOPMIN", BLOCKED, limit), 2)
else
  local set = state == "completed" and COMPLETED or FAILED
  take(redis.call("ZRANGEBYSCORE", set, "-inf", now - age, "LIMIT", 0, limit), 1)
  if #ids > 0 then redis.call("ZREM", set, unpack(ids)) end
end

-- Options that are no JSON count as none: a malformed job must not stop the others.
local function optionsOf(text)
  if not text or text == "" then return {} end
  local ok, options = pcall(cjson.decode, text)
  return ok and type(options) == "table" and options or {}
end

for _, id in ipairs(ids) do
  local record = redis.call("HGET", JOBS, id) or ""
  local opts = string.match(record, "^%d+;%d+;%d+;([^\n]*)")
  local o = optionsOf(opts)
  if o.d and redis.call("HGET", DEDUPE, o.d) == "0:" .. id then redis.call("HDEL", DEDUPE, o.d) end
  if o.n then
    redis.call("HDEL", KIDS, "n" .. id)
    for i = 0, o.n - 1 do redis.call("HDEL", KIDS, id .. "/" .. i) end
  end
  if o.k or state == "failed" then redis.call("ZREM", ALARMS, "j" .. id) end
end
if #ids > 0 then
  redis.call("HDEL", JOBS, unpack(ids))
  redis.call("HDEL", NOTES, unpack(ids))
end
return #ids
