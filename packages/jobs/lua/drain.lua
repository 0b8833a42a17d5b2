-- Deletes jobs that wait or have ended, a bounded number per call. Running jobs stay.
--
-- KEYS  the queue's, up to OUTBOX
-- ARGV  1 "waiting" | "delayed" | "blocked" | "completed" | "failed", 2 maximum of jobs to read,
--       3 minimum age in ms, since the job was added or, if it has ended, since its end,
--       4 how many jobs to skip, which earlier calls have read
-- Returns {how many were deleted, how many were read}.
local state, limit, age, skip = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local problem = wrongType(1, #KEYS)
if problem then return problem end
redis.call("HDEL", META, "") -- removing something first lets this script work while Redis is out of memory
local ended = state == "completed" or state == "failed"
listening = isLater(redis.call("HGET", META, "listen"))

local function old(record)
  if age == 0 then return true end
  local created = string.match(record, HEAD)
  return not created or tonumber(created) <= now - age
end

local dropped, looked, bytes = 0, 0, 0
local function drop(id, record)
  discard(id, optionsIn(record), ended)
  dropped = dropped + 1
end

-- The record of the next job; false if this call has reached its bound.
local function look(id)
  if bytes >= MOST_BYTES or forgotten >= MOST_OUTCOMES then return false end
  local record = redis.call("HGET", JOBS, id) or ""
  bytes = bytes + #record
  looked = looked + 1
  return record
end

-- Jobs in a sorted set.
local function drainSet(set)
  local ids
  if ended then
    ids = redis.call("ZRANGEBYSCORE", set, "-inf", now - age, "LIMIT", 0, limit)
  else
    ids = redis.call("ZRANGE", set, skip, skip + limit - 1)
  end
  for _, id in ipairs(ids) do
    local record = look(id)
    if not record then return end
    if ended or old(record) then
      redis.call("ZREM", set, id)
      drop(id, record)
    end
  end
end

-- The waiting list: old jobs at its head are cut off. Further in, entries are blanked and removed together,
-- because removing each one would search the list each time.
local function drainList()
  local ids = redis.call("LRANGE", WAIT, skip, skip + limit - 1)
  local blanked, head = 0, skip == 0 and 0 or -1
  for i, id in ipairs(ids) do
    local record = look(id)
    if not record then break end
    if old(record) then
      if head == i - 1 then
        head = i
      else
        redis.call("LSET", WAIT, skip + i - 1, "")
        blanked = blanked + 1
      end
      drop(id, record)
    end
  end
  if blanked > 0 then redis.call("LREM", WAIT, blanked, "") end
  if head > 0 then redis.call("LTRIM", WAIT, head, -1) end
end

local function drainGrouped()
  local members = redis.call("ZRANGE", GROUPED, skip, skip + limit - 1)
  for _, member in ipairs(members) do
    local group, id = groupAndId(member)
    local record = look(id)
    if not record then return end
    if old(record) then
      redis.call("ZREM", GROUPED, member)
      redis.call("HDEL", PLACES, id)
      if not hasWaiting(group) then
        redis.call("ZREM", GROUPS, group)
        redis.call("ZREM", CAPPED, group)
      end
      drop(id, record)
    end
  end
end

if state == "waiting" then
  -- Drains one of the three places per call, chosen by how many jobs are still to be skipped.
  local list, prio = redis.call("LLEN", WAIT), redis.call("ZCARD", PRIO)
  if skip < list then
    drainList()
  elseif skip - list < prio then
    skip = skip - list
    drainSet(PRIO)
  else
    skip = skip - list - prio
    drainGrouped()
  end
else
  local sets = { delayed = DELAYED, blocked = BLOCKED, completed = COMPLETED, failed = FAILED }
  if not sets[state] then return redis.error_reply("unknown state " .. state) end
  drainSet(sets[state])
end
if due == 0 then publish("control", "due") end -- parents may run now
return { dropped, looked }
