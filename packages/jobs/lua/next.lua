-- The one call of a worker: ends the jobs it has finished and takes new ones.
--
-- KEYS  the queue's, up to OUTBOX
-- ARGV  1 worker id, 2 lease ms, 3 how many to take, 4 number of done jobs, 5 number of undone jobs,
--       6 ms for which the worker will block on WAKE if it gets fewer jobs than it wants, or 0
--       then for each done job:   id, fence "@", "s" if its record has to be read else "", result
--       then for each undone job: id, fence "@", verdict, error as JSON
--          verdict: "dead" | "back" (untouched, to the front) | "hold <ms>" (back, and no worker takes any
--          job for this time) | "delay <ms>" (later, not counted as an attempt) | "children" (when its
--          children have ended) | ms until the next attempt
-- Returns {ids whose fence was old, ms until something is due or -1, ms until a limit allows more (0: this call
--          ended before, because of large jobs or many groups) or -1, first fence, {id, record, id, record ...}};
--          the n-th job's fence is first fence + n.
-- lib/steady.lua handles the usual call.
local WORKER, LEASE_MS = ARGV[1], tonumber(ARGV[2])
local FIRST = 7
local SKIPS = 100 -- groups at their limit that one call reads

local problem = wrongType(1, #KEYS)
if problem then return problem end

-- Removing something first lets this script work while Redis is out of memory: workers must be able to finish
-- and drain then.
redis.call("ZREM", IDLE, LEASE_MS .. " " .. WORKER)

local set = redis.call("HMGET", META, "listen", "paused", "hold", "conc", "max", "per", "tat", "gconc", "gmax", "gper", "turn", "holdms", "fence")
listening = isLater(set[1])
if set[13] and not (string.find(set[13], "^%d+$") and tonumber(set[13]) < 9e15) then -- before jobs are taken from where they wait
  return redis.error_reply("WRONGTYPE " .. META .. " has a fence that is not a number below 9e15")
end

-- Another program may have written anything there. A limit that is not a number counts as not set.
for i, least in ipairs({ 0, 1, 1, 1, 0, 1, 1, 1, 0, 0 }) do
  local value = tonumber(set[i + 2])
  set[i + 2] = value and value >= least and value <= 1e15 and value or nil
end
if not set[6] then set[5] = nil end
if not set[10] then set[9] = nil end
turn = set[11] or 0

local refused, at = {}, FIRST

-- The ids of the next `n` entries, the indexes of the jobs that are held with their fence, and all tokens.
local function held(n)
  local ids, mine = {}, {}
  for i = 1, n do ids[i] = ARGV[at + (i - 1) * 4] end
  local tokens = redis.call("HMGET", ACTIVE, unpack(ids))
  for i = 1, n do
    local fence = ARGV[at + (i - 1) * 4 + 1]
    if tokens[i] and string.sub(tokens[i], 1, #fence) == fence then
      mine[#mine + 1] = i
    else
      refused[#refused + 1] = ids[i]
    end
  end
  return ids, mine, tokens
end

local function letGo(ids)
  redis.call("HDEL", ACTIVE, unpack(ids))
  redis.call("ZREM", LEASE, unpack(ids))
end

local done, undone = tonumber(ARGV[4]), tonumber(ARGV[5])
if done > 0 then
  local ids, mine = held(done)
  local ended, plain = {}, {}
  local waits = redis.call("SCARD", AWAITED) > 0 and redis.call("SMISMEMBER", AWAITED, unpack(ids))
  for n, i in ipairs(mine) do
    local id, base = ids[i], at + (i - 1) * 4
    ended[n] = id
    if listening then emit("completed", id, nil, "result", ARGV[base + 3]) end
    if ARGV[base + 2] == "" and not (waits and waits[i] == 1) then
      plain[#plain + 1] = id
    else
      local o = finish(id, true, ARGV[base + 3])
      if o.g then release(o.g) end
    end
  end
  if #ended > 0 then
    letGo(ended)
    redis.call("HINCRBY", META, "completed", #ended)
  end
  if #plain > 0 then
    redis.call("HDEL", JOBS, unpack(plain))
    redis.call("HDEL", NOTES, unpack(plain)) -- notes of an attempt that was put back
  end
  at = at + done * 4
end

local function retry(id, ms, text, parsed)
  local created, attempts, stalls, opts, rest = unpack(parsed)
  redis.call("HSET", JOBS, id, created .. ";" .. (attempts + 1) .. ";" .. stalls .. ";" .. opts .. rest)
  note(id, "e", text)
  redis.call("ZADD", DELAYED, now + ms, id)
  bringForward(ms)
  redis.call("HINCRBY", META, "retried", 1)
  emit("retrying", id, nil, "error", text)
end

-- The parent goes back to wait for its children, runs again if they have ended, or ends with them.
local function awaitChildren(id, o)
  local family = familyOf(o.y, id)
  local failure = redis.call("HGET", CHILDREN, "x" .. family)
  if failure then
    finish(id, false, failure)
  elseif tonumber(redis.call("HGET", CHILDREN, "n" .. family) or 0) > 0 then
    redis.call("ZADD", BLOCKED, now, id)
  else
    redis.call("ZADD", DELAYED, now, id)
    bringForward(0)
  end
end

local backOptions = {}
local function undo(id, token, verdict, text)
  local parsed = { parse(redis.call("HGET", JOBS, id)) }
  local o = optionsOf(parsed[4])
  if o.g then release(o.g) end
  local word, ms = string.match(verdict, "^(%a*) ?(%d*)$")
  ms = tonumber(ms)
  local reason = reasonIn(token)
  if word == "hold" then
    redis.call("HSET", META, "hold", now + ms, "holdms", ms)
    set[3], set[12] = now + ms, ms
  end
  if reason then -- the job was to be cancelled and does not run again
    finishCancelled(id, reason, text ~= "" and text)
  elseif word == "back" or word == "hold" then
    placeOrdered(id, o, placeIn(token))
    backOptions[#backOptions + 1] = o
  elseif word == "delay" and parsed[1] then
    redis.call("ZADD", DELAYED, now + ms, id)
    bringForward(ms)
  elseif word == "children" and parsed[1] then
    awaitChildren(id, o)
  elseif word == "dead" or not parsed[1] then
    finish(id, false, text)
  else
    retry(id, ms, text, parsed)
  end
end

-- A bucket that fills at `max` per `per` ms and holds a twentieth of `max` (at least one token), so that
-- no window exceeds the limit by more than 5 %. `tat` is when the bucket will be full again.
local function tokens(max, per, tat)
  local interval = per / max
  local burst = math.max(1, math.floor(max / 20)) * interval
  tat = math.max(tat, now)
  local ahead = tat - now -- subtracted first: added to a current time, a fraction of a ms would be rounded
  return math.floor((burst - ahead) / interval + 1e-6), tat, interval, ahead + interval - burst
end

-- When an empty bucket is full again. A time that is further away was written before the clock was set
-- back; the bucket then counts as empty from now on.
local function sane(key, field, value, max, per)
  local latest = now + math.max(1, math.floor(max / 20)) * per / max + per / max
  if value <= latest then return value end
  redis.call("HSET", key, field, latest)
  return latest
end

-- Jobs that were handed back did not run, so their tokens are returned.
local function refund()
  if set[5] then
    set[7] = tonumber(set[7] or 0) - #backOptions * set[6] / set[5]
    redis.call("HSET", META, "tat", set[7])
  end
  for _, o in ipairs(backOptions) do
    local full = o.g and set[9] and tonumber(redis.call("HGET", USAGE, "t" .. o.g) or nil)
    if full then redis.call("HSET", USAGE, "t" .. o.g, full - set[10] / set[9]) end
  end
end

if undone > 0 then
  local ids, mine, tokensBefore = held(undone)
  local ended = {}
  for n, i in ipairs(mine) do
    ended[n] = ids[i]
    undo(ids[i], tokensBefore[i], ARGV[at + (i - 1) * 4 + 2], ARGV[at + (i - 1) * 4 + 3])
  end
  if #ended > 0 then letGo(ended) end
  if #backOptions > 0 then
    refund()
    redis.call("ZADD", WAKE, 0, "0")
  end
end

-- Taking. First how many jobs the limits allow, then from which places.
local want, later = tonumber(ARGV[3]), -1
if want > 0 then
  if set[2] then want = 0 end
  local rest = tonumber(set[3] or 0) - now
  if rest > 0 and rest <= tonumber(set[12] or rest) then -- else the clock was set back
    later = rest
    want = 0
  end
  if set[4] then want = math.max(0, math.min(want, math.floor(set[4]) - redis.call("HLEN", ACTIVE))) end
end

local tat, interval
if want > 0 and set[5] then
  local free, wait
  local max, per = tonumber(set[5]), tonumber(set[6])
  free, tat, interval, wait = tokens(max, per, sane(META, "tat", tonumber(set[7] or 0), max, per))
  if free < want then
    want = math.max(0, free)
    later = math.max(1, math.ceil(wait + want * interval))
  end
end

local ids, groupOf = {}, {}
local places = {} -- id -> "/" and its place, of jobs that came back
local bytes = 0 -- of the taken jobs

-- How many entries of the list fit into this call. An id is followed by step - 1 other values.
local function fitting(list, step)
  for i = 1, #list, step do
    if bytes >= MOST_BYTES then return i - 1 end
    bytes = bytes + redis.call("HSTRLEN", JOBS, list[i])
  end
  return #list
end

-- Takes jobs out of PRIO.
local function collect(scored)
  local before = #ids
  for i = 1, fitting(scored, 2), 2 do
    local id, place = scored[i], scored[i + 1] % 4294967296
    ids[#ids + 1] = id
    if place < HALF then places[id] = string.format("/%d", place) end
  end
  if #ids > before then redis.call("ZREM", PRIO, unpack(ids, before + 1)) end
end

-- The next job of the group, or nothing if a limit refuses it. In that case the group leaves the round and
-- returns by release(), by its timer, or when the limit is changed.
local function takeFrom(group)
  if set[8] and (tonumber(redis.call("HGET", USAGE, "a" .. group) or 0) or 0) >= set[8] then
    redis.call("ZADD", CAPPED, now, group)
    return
  end
  local full, step
  if set[9] then
    local free, wait
    local max, per = tonumber(set[9]), tonumber(set[10])
    full = sane(USAGE, "t" .. group, tonumber(redis.call("HGET", USAGE, "t" .. group) or 0) or 0, max, per)
    free, full, step, wait = tokens(max, per, full)
    if free < 1 then
      redis.call("ZADD", CAPPED, now, group)
      redis.call("ZADD", TIMERS, now + math.ceil(wait), "g" .. group)
      bringForward(math.ceil(wait))
      return
    end
  end
  local member = redis.call("ZRANGEBYLEX", GROUPED, "[" .. group .. "\0", "(" .. group .. "\1", "LIMIT", 0, 1)[1]
  if not member then return end
  if step then
    redis.call("HSET", USAGE, "t" .. group, full + step)
    redis.call("ZADD", TIMERS, math.ceil(full + step), "t" .. group) -- the field is not needed after that time
  end
  redis.call("ZREM", GROUPED, member)
  local id, place = string.sub(member, #group + 21), tonumber(string.sub(member, #group + 8, #group + 20), 16)
  if place and place < MIDDLE then places[id] = string.format("/%d", place) end
  addRunning(group, 1)
  groupOf[id] = group
  return id
end

-- Fair between groups: each has a turn number, the lowest is next, and serving a group costs it one turn. The
-- number of skipped groups is bounded; if there are more, the worker calls again at once.
local skipped = 0
local function takeGrouped(n)
  local before, served = turn, {}
  while n > 0 and bytes < MOST_BYTES do
    local head = redis.call("ZRANGE", GROUPS, 0, 0, "WITHSCORES")
    if #head == 0 then break end
    if skipped >= SKIPS then
      later = 0
      break
    end
    local group = head[1]
    local id = takeFrom(group)
    redis.call("ZREM", GROUPS, group)
    if id then
      turn = math.max(turn, tonumber(head[2]))
      if hasWaiting(group) then redis.call("ZADD", GROUPS, turn + 1, group) end
      ids[#ids + 1] = id
      served[#served + 1] = id
      fitting({ id }, 1)
      n = n - 1
    else
      skipped = skipped + 1
    end
  end
  if #served > 0 then redis.call("HDEL", PLACES, unpack(served)) end
  if turn ~= before then redis.call("HSET", META, "turn", turn) end
end

local asked = want
if want > 0 then
  local ordered = redis.call("ZCARD", PRIO) > 0
  if ordered then -- negative priorities come before everything, then jobs that came back
    local urgent = redis.call("ZRANGEBYSCORE", PRIO, "-inf", "(" .. HALF, "WITHSCORES", "LIMIT", 0, want)
    collect(urgent)
  end
  local grouped = redis.call("ZCARD", GROUPS) > 0
  if grouped and want > #ids then -- jobs with and without a group take turns
    local share = math.floor((want - #ids) / 2)
    if (want - #ids) % 2 == 1 then share = share + redis.call("HINCRBY", META, "side", 1) % 2 end
    takeGrouped(math.max(share, want - #ids - redis.call("LLEN", WAIT)))
  end
  if want > #ids then
    local plain = redis.call("LPOP", WAIT, want - #ids) or {}
    local fit, rest = fitting(plain, 1), {}
    for i = 1, fit do ids[#ids + 1] = plain[i] end
    for i = #plain, fit + 1, -1 do rest[#rest + 1] = plain[i] end
    if #rest > 0 then redis.call("LPUSH", WAIT, unpack(rest)) end
  end
  if grouped and want > #ids then takeGrouped(want - #ids) end
  if ordered and want > #ids then collect(redis.call("ZRANGE", PRIO, 0, want - #ids - 1, "WITHSCORES")) end
end
local full = bytes >= MOST_BYTES and #ids < asked
if full then later = 0 end

local taken, first = {}, 0
if #ids > 0 then
  local records = redis.call("HMGET", JOBS, unpack(ids))
  local tokensOf, leases, suffix = {}, {}, "@" .. WORKER .. "@" .. now
  first = redis.call("HINCRBY", META, "fence", #ids) - #ids
  if first == 0 then
    -- The queue is new. Its fences start at the time in microseconds, so that they are larger than all fences of a
    -- queue of this name that was deleted: its jobs may still run, and the new jobs may have their ids.
    first = redis.call("HINCRBY", META, "fence", string.format("%d%06d", time[1], time[2])) - #ids
  end
  for i, id in ipairs(ids) do
    if records[i] then
      taken[#taken + 1] = id
      taken[#taken + 1] = records[i]
      tokensOf[#tokensOf + 1] = id
      tokensOf[#tokensOf + 1] = string.format("%d%s%s", first + #taken / 2, suffix, places[id] or "")
      leases[#leases + 1] = now + LEASE_MS
      leases[#leases + 1] = id
      if listening then emit("active", id, nil, "worker", WORKER) end
    elseif groupOf[id] then -- another program left its place without a job
      release(groupOf[id])
    end
  end
  if #taken > 0 then
    redis.call("HSET", ACTIVE, unpack(tokensOf))
    redis.call("ZADD", LEASE, unpack(leases))
  end
  if tat then redis.call("HSET", META, "tat", tat + #ids * interval) end
end

-- Wakes idle workers if there are more jobs.
if (asked == 0 or #ids == asked or full)
  and (asked > 0 or done + undone > 0)
  and (redis.call("LLEN", WAIT) > 0 or redis.call("ZCARD", PRIO) > 0 or redis.call("ZCARD", GROUPS) > 0)
then
  redis.call("ZADD", WAKE, 0, "0")
end
-- A worker that becomes idle is listed, so that add.lua can hand it a single job.
if tonumber(ARGV[6]) > 0 and asked > 0 and asked == tonumber(ARGV[3]) and #ids < asked and not full then
  redis.call("ZADD", IDLE, now + ARGV[6], LEASE_MS .. " " .. WORKER)
end
local head = redis.call("ZRANGE", DELAYED, 0, 0, "WITHSCORES")
if head[2] then bringForward(math.ceil(head[2] - now)) end
return { refused, due, later, first, taken }
