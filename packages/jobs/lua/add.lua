-- Adds jobs. lib/plain.lua adds a single job without options. A job whose id exists, or whose dedupe key is
-- held, is not added a second time.
--
-- KEYS  the queue's, up to ADDS
-- ARGV  1  the call's field in ADDS, 2 its number there, 3 "1" if the call is repeated after a lost reply
--       4  "1" to add all jobs or none
--       then for each job
--       +0 id
--       +1 its place: "" for the end of the waiting list, "o" and a message for the outbox instead of a
--          job, else JSON
--          {d delay ms | at due ms, p priority, g group, l 1 = in front, b 1 = waits for its children,
--           n number of children, y token of the flow, w 1 = its end is awaited,
--           k [dedupe key, ttl ms or 0, "keep"|"replace", longest wait ms or 0]}
--       +2 the record, without a leading time or with the producer's estimate of the time of Redis when it was
--          sent. A time that is later than that of Redis or more than 100 ms earlier is replaced
-- Returns the number of jobs if all were added; else, for each job that was not: index (from 0), id of the
--         existing job, "exists" | "kept" | "replaced"; then -2, index, "later" if the call ended before this job:
--         the caller sends it and those after it again, with another number; then -1, the time of Redis, "time" if a
--         time was replaced. A repeated call that was applied before returns the same reply, without the time.
local FIRST = 5
local MOST_SEARCHED = 500000 -- entries of WAIT after which a call adds no more jobs: see unplace()
local total = (#ARGV - FIRST + 1) / 3

-- All places are parsed before the first write: a string that is not JSON must not leave some jobs added.
local plain, wheres = true, {}
for i = 1, total do
  local where = ARGV[FIRST - 2 + i * 3]
  if where ~= "" then
    plain = false
    if not messageIn(where) then wheres[i - 1] = cjson.decode(where) end
  end
end
local problem
if plain then
  problem = wrongType(3, 3) or wrongType(19, 20) or wrongType(25, 25)
else
  problem = wrongType(1, 25)
end
if problem then return problem end

local fields, tail, other = {}, {}, {} -- new records; ids for the end of the list; jobs not added
local messages = {} -- for other queues
local later = nil -- index of the first job that this call does not add any more
local seen, born, earlier = {}, 0, false -- seen: id -> "added", or "other" if another job has that place
listening = isLater(redis.call("HGET", META, "listen"))

if ARGV[3] == "1" then
  local number, outcome = string.match(redis.call("HGET", ADDS, ARGV[1]) or "", "^(%d+)@%d+ ?(.*)$")
  if number == ARGV[2] then return outcome == "" and total or cjson.decode(outcome) end
end

local stamp = now .. "" -- a number would be formatted anew for each job

local function dueOf(how)
  return how.at or (how.d and now + how.d) or 0
end

-- Puts a job where it waits, or makes it wait for its children.
local function place(id, how)
  local at = dueOf(how)
  if how.b then
    redis.call("ZADD", BLOCKED, now, id)
    redis.call("HSET", CHILDREN, "n" .. familyOf(how.y, id), how.n)
  elseif at > now then
    redis.call("ZADD", DELAYED, at, id)
    earlier = earlier or redis.call("ZRANGE", DELAYED, 0, 0)[1] == id
  elseif how.g or how.p then
    placeOrdered(id, how, false)
  elseif how.l then
    redis.call("LPUSH", WAIT, id)
  else
    tail[#tail + 1] = id
  end
end

-- Whether the job can still be given other data: it is not running, has not ended, and has no children, because
-- their outcomes belong to its record.
local function pending(id)
  local record = redis.call("HGET", JOBS, id)
  return record
    and not optionsIn(record).n
    and redis.call("HEXISTS", ACTIVE, id) == 0
    and not redis.call("ZSCORE", COMPLETED, id)
    and not redis.call("ZSCORE", FAILED, id)
end

-- Gives a pending job other data and options. It keeps its place unless its group or priority changed.
local function replace(id, how, record)
  local created, _, _, opts = parse(redis.call("HGET", JOBS, id))
  created = created or now
  local old = optionsOf(opts)
  redis.call("HSET", JOBS, id, created .. string.sub(record, string.find(record, ";", 1, true) or 1))
  if redis.call("ZSCORE", DELAYED, id) then
    local at = math.max(now, dueOf(how))
    if how.k[4] > 0 then at = math.min(at, created + how.k[4]) end
    redis.call("ZADD", DELAYED, at, id)
    earlier = true
  elseif old.g ~= how.g or old.p ~= how.p then
    unplace(id, old)
    if how.g or how.p then placeOrdered(id, how, false) else redis.call("RPUSH", WAIT, id) end
  end
end

-- A caller that gets the handle of an existing job may also await its end.
local function await(id)
  if seen[id] == "added" then -- added by this call: its record may not be written yet
    redis.call("SADD", AWAITED, id)
  elseif redis.call("HEXISTS", JOBS, id) == 1 and not redis.call("ZSCORE", COMPLETED, id) and not redis.call("ZSCORE", FAILED, id) then
    redis.call("SADD", AWAITED, id)
  end
end

-- Takes the dedupe key for `id`, or returns the job that holds it and what happened to the new one.
local function claim(id, how, record)
  local key, ttl, mode = how.k[1], how.k[2], how.k[3]
  local ends, holder = string.match(redis.call("HGET", DEDUPE, key) or "", "^(%d+):(.*)$")
  ends = tonumber(ends)
  if ends and (ends == 0 or ends > now) then
    if mode ~= "replace" then return holder, "kept" end
    if pending(holder) then
      replace(holder, how, record)
      if ttl > 0 then
        redis.call("HSET", DEDUPE, key, (now + ttl) .. ":" .. holder)
        redis.call("ZADD", TIMERS, now + ttl, "d" .. key)
      end
      return holder, "replaced"
    end
  end
  redis.call("HSET", DEDUPE, key, (ttl > 0 and now + ttl or 0) .. ":" .. id)
  if ttl > 0 then redis.call("ZADD", TIMERS, now + ttl, "d" .. key) end
end

local function refuse(index, id, why)
  other[#other + 1] = index
  other[#other + 1] = id
  other[#other + 1] = why
end

local function add(index, id, where, record)
  if where == "" then
    fields[#fields + 1] = id
    fields[#fields + 1] = dated(record, now, stamp)
    tail[#tail + 1] = id
  else
    local message = messageIn(where)
    if message then
      messages[#messages + 1] = message
      return
    end
    local how = wheres[index]
    local holder, outcome
    if how.k then holder, outcome = claim(id, how, record) end
    if holder then
      seen[id] = "other"
      if how.w then await(holder) end
      return refuse(index, holder, outcome)
    end
    if how.k then
      redis.call("HSET", JOBS, id, dated(record, now, stamp)) -- at once: the next job may replace it
    else
      fields[#fields + 1] = id
      fields[#fields + 1] = dated(record, now, stamp)
    end
    if how.w then redis.call("SADD", AWAITED, id) end
    place(id, how)
  end
  born = born + 1
  if listening then emit("added", id, string.match(record, "^[^\n]*\n([^\n]*)\n")) end
end

local function idsOf(first, last)
  local ids = {}
  for i = first, last do ids[#ids + 1] = ARGV[FIRST + i * 3] end
  return ids
end

local function addMany()
  if ARGV[4] == "1" then
    local left = {} -- ended jobs of an earlier flow with the same ids
    for first = 0, total - 1, CHUNK do
      local ids = idsOf(first, math.min(first + CHUNK, total) - 1)
      local there = redis.call("HMGET", JOBS, unpack(ids))
      for n, id in ipairs(ids) do
        local i = first + n - 1
        if there[n] and isSame(there[n], ARGV[FIRST + 2 + i * 3]) then return end -- ADDS has removed the call
        if there[n] and isEarlierLife(id, there[n], ARGV[FIRST + 2 + i * 3]) then
          left[#left + 1] = id
        elseif there[n] then
          refuse(i, id, "exists")
        end
      end
    end
    if #other > 0 then return end
    for _, id in ipairs(left) do forgetEnded(id) end
  end
  for first = 0, total - 1, CHUNK do
    if later then break end
    local last = math.min(first + CHUNK, total) - 1
    local ids, there = idsOf(first, last), NONE
    if ARGV[4] ~= "1" then there = redis.call("HMGET", JOBS, unpack(ids)) end -- else none of them exists
    for n, id in ipairs(ids) do
      local i = first + n - 1
      if searched >= MOST_SEARCHED and ARGV[4] ~= "1" then
        later = i
        break
      end
      if there[n] or seen[id] then
        if wheres[i] and wheres[i].w then await(id) end
        refuse(i, id, "exists")
      else
        seen[id] = "added"
        add(i, id, ARGV[FIRST + 1 + i * 3], ARGV[FIRST + 2 + i * 3])
      end
    end
    if #fields > 0 then redis.call("HSET", JOBS, unpack(fields)) end
    if #tail > 0 then redis.call("RPUSH", WAIT, unpack(tail)) end
    fields, tail = {}, {}
  end
  if #messages > 0 then post(messages) end
end

addMany()
if later then
  other[#other + 1] = -2
  other[#other + 1] = later
  other[#other + 1] = "later"
end
redis.call("HSET", ADDS, ARGV[1], ARGV[2] .. "@" .. now .. (#other == 0 and "" or " " .. cjson.encode(other)))
if born > 0 then redis.call("ZADD", WAKE, 0, "0") end
if earlier or due == 0 then publish("control", "due") end
if misdated then
  other[#other + 1] = -1
  other[#other + 1] = now
  other[#other + 1] = "time"
end
if #other > 0 then return other end
return total
