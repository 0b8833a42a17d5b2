-- The end of a job, with everything that depends on it: its dedupe key, its parent, the callers that await
-- it, and how long it is kept.
local RESULT_MS = 60000 -- how long an awaited outcome stays when the job itself is not kept
local TRIM = 100 -- maximum of old jobs that one ended job removes
local MOST_TRIMMED = 600 -- maximum of old jobs that one call removes: more than the 500 jobs that it can complete
local trimmed = 0 -- number of them so far
local FAILURES = 10 -- errors of earlier attempts that are kept

local function note(id, name, value)
  local ok, doc = pcall(cjson.decode, redis.call("HGET", NOTES, id) or "{}")
  if not ok or type(doc) ~= "table" then doc = {} end
  if name == "e" then
    if type(doc.h) ~= "table" then doc.h = {} end
    doc.h[#doc.h + 1] = value
    while #doc.h > FAILURES do table.remove(doc.h, 1) end
  else
    doc[name] = value
  end
  doc.t = now
  redis.call("HSET", NOTES, id, cjson.encode(doc))
end

local function releaseKey(id, o)
  if o.d and redis.call("HGET", DEDUPE, o.d) == "0:" .. id then redis.call("HDEL", DEDUPE, o.d) end
end

-- How many ended jobs like this one are kept, and for how long. -1 means any number, 0 ms means for ever.
local KEPT = { 0, 0, 10000, 7776000000 }
local function retentionOf(o, ok)
  local limits, at = o.k or KEPT, ok and 1 or 3
  return limits[at], limits[at + 1]
end

-- Deletes the oldest ended jobs, all but `most`, and not the job `spared`. It stops at an outcome that is kept
-- for callers that await it: the jobs behind it ended within the same minute.
local function trim(ok, most, spared)
  local set = ok and COMPLETED or FAILED
  local over = math.min(redis.call("ZCARD", set) - most, TRIM, MOST_TRIMMED - trimmed)
  if over <= 0 then return end
  local before = trimmed
  for _, old in ipairs(redis.call("ZRANGE", set, 0, over)) do -- one more, because it may be the spared one
    if over == 0 or forgotten >= MOST_OUTCOMES then return end
    if readBytes >= MOST_BYTES and trimmed > before then return end -- at least one goes for each job that ends
    if old ~= spared then
      local o = optionsOfEnded(old)
      local timer = retentionOf(o, ok) == 0 and "j" or "w"
      if redis.call("ZSCORE", TIMERS, timer .. old) then return end
      redis.call("ZREM", set, old)
      forget(old, o)
      over = over - 1
      trimmed = trimmed + 1
    end
  end
end

-- Keeps the ended job as long as its options say, and its outcome as long as it may be awaited, or
-- deletes it.
local function keep(id, o, ok)
  local count, age = retentionOf(o, ok)
  if redis.call("SREM", AWAITED, id) == 1 then
    publish("results", id)
    if count == 0 then count, age = -1, RESULT_MS end
    if age > 0 then age = math.max(age, RESULT_MS) end
    if count > 0 then
      redis.call("ZADD", TIMERS, now + RESULT_MS, "w" .. id)
      bringForward(RESULT_MS)
    end
  end
  if count == 0 then
    forget(id, o)
    return false
  end
  redis.call("ZADD", ok and COMPLETED or FAILED, now, id)
  if age > 0 then
    redis.call("ZADD", TIMERS, now + age, "j" .. id)
    bringForward(age)
  else
    redis.call("ZREM", TIMERS, "j" .. id)
  end
  if count > 0 then trim(ok, count, id) end
  return true
end

local reportChild

-- Ends a job finally. `text` is its result or error as JSON. Returns its options.
local function finish(id, ok, text)
  local created, attempts, stalls, opts, rest = parse(redis.call("HGET", JOBS, id))
  local o = optionsOf(opts)
  releaseKey(id, o)
  if o.f then reportChild(id, o, ok and "c" or "f", text) end
  if not ok then
    redis.call("HINCRBY", META, "failed", 1)
    emit("failed", id, nil, "error", text)
  end
  if keep(id, o, ok) then
    if created then
      redis.call("HSET", JOBS, id, created .. ";" .. (attempts + 1) .. ";" .. stalls .. ";" .. opts .. rest)
    end
    note(id, ok and "r" or "e", text)
  end
  return o
end

-- The reason in the token of a job that is to be cancelled.
local function reasonIn(token)
  return string.match(token or "", "^%d+@[^@]*@[%d/]+@(.*)$")
end

-- Ends a job that was to be cancelled and whose attempt had no result. `text` is the error that its
-- handler threw, if any: often thrown by another function because the signal was aborted.
local function finishCancelled(id, reason, text)
  if text and string.find(text, '"code":"JOB_CANCELLED"', 1, true) then
    finish(id, false, text)
    return
  end
  if text then note(id, "e", text) end
  local message = "job " .. id .. " was cancelled" .. (reason == "" and "" or ": " .. reason)
  local error = { name = "JobCancelledError", code = "JOB_CANCELLED", message = message, details = { id = id, reason = reason } }
  finish(id, false, cjson.encode(error))
end

-- Records a child's outcome with its parent, once. The last child to end unblocks its parent. A failed child
-- ends the parent, unless the child's policy (c) is 1 ignore or 2 remove.
local function recordChild(parent, child, flow, policy, outcome, text)
  local family = familyOf(flow, parent)
  if redis.call("HEXISTS", CHILDREN, "n" .. family) == 0 then return end -- the parent is gone
  if outcome == "f" and policy == 2 then outcome, text = "r", "" end
  local field = "c" .. familyOf(flow, child)
  if redis.call("HSETNX", CHILDREN, field, outcome .. text) == 0 then
    -- The child was counted when it failed, was retried and has completed. A late failure changes nothing.
    if outcome == "c" and string.sub(redis.call("HGET", CHILDREN, field), 1, 1) ~= "c" then
      redis.call("HSET", CHILDREN, field, outcome .. text)
    end
    return
  end
  local left = redis.call("HINCRBY", CHILDREN, "n" .. family, -1)
  if outcome == "f" and not policy then
    local details = { child = child }
    local error = { name = "ChildFailedError", code = "CHILD_FAILED", message = "child job " .. child .. " failed", details = details }
    if redis.call("ZREM", BLOCKED, parent) == 1 then
      finish(parent, false, cjson.encode(error))
    else
      redis.call("HSET", CHILDREN, "x" .. family, cjson.encode(error)) -- the parent runs: next.lua finds this
    end
  elseif left <= 0 and redis.call("ZREM", BLOCKED, parent) == 1 then
    redis.call("ZADD", DELAYED, now, parent)
    bringForward(0)
  end
end

-- The message to a parent in another queue.
local function childMessage(child, o, outcome, text)
  local place = o.f .. (string.match(child, "/%d+$") or "/0")
  return cjson.encode({ kind = "child", queue = o.q, parent = o.f, flow = o.y, child = place, policy = o.c or 0, outcome = outcome, text = text })
end

-- Reports the end of a child to its parent. The outbox carries the report to a parent in another queue.
reportChild = function(child, o, outcome, text)
  if o.q then
    redis.call("HSET", OUTBOX, string.format("%d", numbersOf(1) + 1), childMessage(child, o, outcome, text))
    bringForward(0)
  else
    recordChild(o.f, child, o.y, o.c, outcome, text)
  end
end

-- Deletes a job on request, whether it has ended or not. `reason` is nil unless it was cancelled.
local function discard(id, o, ended, reason)
  releaseKey(id, o)
  if o.f and not ended then reportChild(id, o, "r", "") end
  emit("removed", id)
  forget(id, o)
  if redis.call("SREM", AWAITED, id) == 1 then
    publish("results", reason and id .. "\ncancelled\n" .. reason or id .. "\nremoved")
  end
end
