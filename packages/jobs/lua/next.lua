-- A worker's one call: ends the jobs it has finished with and takes new ones.
--
-- KEYS  the queue's, in the order of keys.ts
-- ARGV  1 worker id, 2 lease ms, 3 how many to take, 4 how many are done, 5 how many are undone,
--       6 the control channel, 7 the results channel, 8 ms for which the worker will block on WAKE if
--       it gets fewer than it wants, or 0
--       then for each done job:   id, token, "s" if its record has to be looked at else "", result
--       then for each undone job: id, token, verdict, error as JSON
--          verdict: "dead" | "back" (untouched, to the front) | "hold <ms>" (back, and nobody takes any
--          job for so long) | ms until the next attempt
-- Returns {ids whose token was old, ms until something is due or -1, ms until a limit allows more or -1,
--          first fence, rest of the tokens, {id, record, id, record ...}}; the n-th job's token is
--          (first fence + n) .. rest.
local META, JOBS, WAIT, PRIO, GROUPS, GROUPED, TENANTS, DELAYED, ACTIVE, LEASE, NOTES, COMPLETED, FAILED, KIDS, BLOCKED, DEDUPE, ALARMS, WAITED, CANCELS, WAKE, EVENTS, PARKED =
  unpack(KEYS)
local WORKER, LEASE_MS, CONTROL, RESULTS = ARGV[1], tonumber(ARGV[2]), ARGV[6], ARGV[7]
local RESULT_MS = 60000 -- how long an awaited outcome stays when the job itself is not kept
local TRIM = 100 -- old jobs that one finished job may push out

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local set = redis.call("HMGET", META, "listen", "paused", "hold", "conc", "max", "per", "tat", "gconc", "gmax", "gper", "turn")
local listening = tonumber(set[1] or 0) > now
local turn = tonumber(set[11] or 0)
local awaited = redis.call("SCARD", WAITED) > 0
local due = -1 -- ms until something is due

local function emit(event, id, name, value)
  if listening then
    redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", event, "id", id, name, value)
  end
end

local function bringForward(ms)
  if due < 0 or ms < due then due = math.max(0, ms) end
end

local function parse(record)
  local created, attempts, stalls, opts, rest = string.match(record, "^(%d+);(%d+);(%d+);([^\n]*)(.*)$")
  if not created then return nil end
  return created, tonumber(attempts), tonumber(stalls), opts, rest
end

-- Options that are no JSON count as none: a malformed job must not stop the others.
local function optionsOf(text)
  if not text or text == "" then return {} end
  local ok, options = pcall(cjson.decode, text)
  return ok and type(options) == "table" and options or {}
end

local function hasWaiting(group)
  return #redis.call("ZRANGEBYLEX", GROUPED, "[" .. group .. "\0", "(" .. group .. "\1", "LIMIT", 0, 1) > 0
end

-- A job of the group is no longer running; if you change this, change move.lua too.
local function release(group)
  if redis.call("HINCRBY", TENANTS, "a" .. group, -1) <= 0 then redis.call("HDEL", TENANTS, "a" .. group) end
  if hasWaiting(group) then redis.call("ZADD", GROUPS, "NX", turn + 1, group) end
end

local function note(id, name, value)
  local doc = optionsOf(redis.call("HGET", NOTES, id))
  doc[name] = value
  doc.t = now
  redis.call("HSET", NOTES, id, cjson.encode(doc))
end

-- Keeps the ended job as long as it wants to be kept, or drops it.
local function keep(id, o, set, limits)
  local count, age = limits[1], limits[2]
  local waited = awaited and redis.call("SREM", WAITED, id) == 1
  if waited then
    redis.call("PUBLISH", RESULTS, id)
    if count == 0 then count, age = -1, RESULT_MS end
  end
  if count == 0 then
    redis.call("HDEL", JOBS, id)
    redis.call("HDEL", NOTES, id)
    if o.n then
      redis.call("HDEL", KIDS, "n" .. id)
      for i = 0, o.n - 1 do redis.call("HDEL", KIDS, id .. "/" .. i) end
    end
    return false
  end
  redis.call("ZADD", set, now, id)
  if age > 0 then redis.call("ZADD", ALARMS, now + age, "j" .. id) end
  local over = count > 0 and redis.call("ZCARD", set) - count or 0
  if over > 0 then
    for _, old in ipairs(redis.call("ZRANGE", set, 0, math.min(over, TRIM) - 1)) do
      redis.call("ZREM", set, old)
      redis.call("ZADD", ALARMS, 0, "j" .. old) -- move.lua drops it with all that belongs to it
      bringForward(0)
    end
  end
  return true
end

local tellParent

-- The end of a job's life, with everything that hangs on it.
local function finish(id, ok, text)
  local created, attempts, stalls, opts, rest = parse(redis.call("HGET", JOBS, id) or "")
  local o = optionsOf(opts)
  redis.call("HDEL", CANCELS, id)
  if o.d then
    local held = redis.call("HGET", DEDUPE, o.d)
    if held == "0:" .. id then redis.call("HDEL", DEDUPE, o.d) end
  end
  if o.f then tellParent(id, o.f, ok, text) end
  local limits = o.k or { 0, 0, 10000, 7776000000 }
  local kept
  if ok then
    kept = keep(id, o, COMPLETED, { limits[1], limits[2] })
  else
    kept = keep(id, o, FAILED, { limits[3], limits[4] })
  end
  if kept then
    if created then
      redis.call("HSET", JOBS, id, created .. ";" .. (attempts + 1) .. ";" .. stalls .. ";" .. opts .. rest)
    end
    note(id, ok and "r" or "e", text)
  end
  return o
end

-- The last child to end sets its parent free; a child's failure may end the parent.
tellParent = function(child, parent, ok, text)
  if redis.call("HSET", KIDS, child, (ok and "c" or "f") .. text) == 0 then return end
  local left = redis.call("HINCRBY", KIDS, "n" .. parent, -1)
  local record = not ok and redis.call("HGET", JOBS, parent)
  local _, _, _, opts = parse(record or "")
  if opts and not optionsOf(opts).c then
    if redis.call("ZREM", BLOCKED, parent) == 1 then
      local error = { name = "ChildFailedError", code = "CHILD_FAILED", message = "child job " .. child .. " failed" }
      finish(parent, false, cjson.encode(error))
      redis.call("HINCRBY", META, "failed", 1)
      emit("failed", parent, "error", cjson.encode(error))
    end
  elseif left <= 0 and redis.call("ZREM", BLOCKED, parent) == 1 then
    redis.call("ZADD", DELAYED, now, parent)
    bringForward(0)
  end
end

local refused, at = {}, 9

local function held(n, width)
  local ids, mine = {}, {}
  for i = 1, n do ids[i] = ARGV[at + (i - 1) * width] end
  local tokens = redis.call("HMGET", ACTIVE, unpack(ids))
  for i = 1, n do
    if tokens[i] == ARGV[at + (i - 1) * width + 1] then
      mine[#mine + 1] = i
    else
      refused[#refused + 1] = ids[i]
    end
  end
  return ids, mine
end

local function letGo(ids)
  redis.call("HDEL", ACTIVE, unpack(ids))
  redis.call("ZREM", LEASE, unpack(ids))
end

local done, undone = tonumber(ARGV[4]), tonumber(ARGV[5])
if done > 0 then
  local ids, mine = held(done, 4)
  local ended, plain = {}, {}
  local waits = awaited and redis.call("SMISMEMBER", WAITED, unpack(ids))
  for n, i in ipairs(mine) do
    local id, base = ids[i], at + (i - 1) * 4
    ended[n] = id
    if ARGV[base + 2] == "" and not (waits and waits[i] == 1) then
      plain[#plain + 1] = id
    else
      local o = finish(id, true, ARGV[base + 3])
      if o.g then release(o.g) end
    end
    emit("completed", id, "result", ARGV[base + 3])
  end
  if #ended > 0 then
    letGo(ended)
    redis.call("HINCRBY", META, "completed", #ended)
  end
  if #plain > 0 then redis.call("HDEL", JOBS, unpack(plain)) end
  at = at + done * 4
end

-- Back to where it waited before anything else: earlier scores than any due time, in the order given.
local function putBack(id, n)
  redis.call("ZADD", DELAYED, n, id)
  bringForward(0)
end

local function undo(id, verdict, text, n)
  local created, attempts, stalls, opts, rest = parse(redis.call("HGET", JOBS, id) or "")
  local o = optionsOf(opts)
  if o.g then release(o.g) end
  local hold = string.match(verdict, "^hold (%d+)")
  if verdict == "back" or hold then
    if hold then redis.call("HSET", META, "hold", now + hold) end
    putBack(id, n)
  elseif verdict == "dead" or not created then
    finish(id, false, text)
    redis.call("HINCRBY", META, "failed", 1)
    emit("failed", id, "error", text)
  else
    redis.call("HSET", JOBS, id, created .. ";" .. (attempts + 1) .. ";" .. stalls .. ";" .. opts .. rest)
    note(id, "e", text)
    redis.call("ZADD", DELAYED, now + verdict, id)
    bringForward(tonumber(verdict))
    redis.call("HINCRBY", META, "retried", 1)
    emit("retrying", id, "error", text)
  end
end

if undone > 0 then
  local ids, mine = held(undone, 4)
  local ended = {}
  for n, i in ipairs(mine) do
    ended[n] = ids[i]
    undo(ids[i], ARGV[at + (i - 1) * 4 + 2], ARGV[at + (i - 1) * 4 + 3], n)
  end
  if #ended > 0 then letGo(ended) end
  set[3] = redis.call("HGET", META, "hold")
end

-- Taking. First how many the limits allow, then from which lane.
local want, later = tonumber(ARGV[3]), -1
if want > 0 then
  if set[2] then want = 0 end
  if tonumber(set[3] or 0) > now then
    later = set[3] - now
    want = 0
  end
  if set[4] then want = math.max(0, math.min(want, set[4] - redis.call("HLEN", ACTIVE))) end
end

-- A bucket that fills at `max` per `per` ms and holds a twentieth of `max` (at least one token), so that
-- no window sees more than 5 % too many. `tat` is when it will be full again.
local function tokens(max, per, tat)
  local interval = per / max
  local burst = math.max(1, math.floor(max / 20)) * interval
  tat = math.max(tat, now)
  return math.floor((now + burst - tat) / interval + 1e-6), tat, interval, tat + interval - burst - now
end

local tat, interval
if want > 0 and set[5] then
  local free, wait
  free, tat, interval, wait = tokens(tonumber(set[5]), tonumber(set[6]), tonumber(set[7] or 0))
  if free < want then
    want = math.max(0, free)
    later = math.max(1, math.ceil(wait + want * interval))
  end
end

local ids = {}
local function collect(list, step)
  for i = 1, #list, step or 1 do ids[#ids + 1] = list[i] end
end

-- The next job of the group, or nothing if a limit stands against it: then it leaves the round and
-- comes back by release() or by its alarm.
local function takeFrom(group)
  if set[8] and tonumber(redis.call("HGET", TENANTS, "a" .. group) or 0) >= tonumber(set[8]) then return end
  if set[9] then
    local full = tonumber(redis.call("HGET", TENANTS, "t" .. group) or 0)
    local free, from, step, wait = tokens(tonumber(set[9]), tonumber(set[10]), full)
    if free < 1 then
      redis.call("ZADD", ALARMS, now + math.ceil(wait), "g" .. group)
      bringForward(math.ceil(wait))
      return
    end
    redis.call("HSET", TENANTS, "t" .. group, from + step)
  end
  local member = redis.call("ZRANGEBYLEX", GROUPED, "[" .. group .. "\0", "(" .. group .. "\1", "LIMIT", 0, 1)[1]
  if not member then return end
  redis.call("ZREM", GROUPED, member)
  redis.call("HINCRBY", TENANTS, "a" .. group, 1)
  return string.sub(member, #group + 21)
end

-- Fair between groups: each has a turn number, the lowest is next, and being served costs one turn.
local function takeGrouped(n)
  local before = turn
  while n > 0 do
    local head = redis.call("ZRANGE", GROUPS, 0, 0, "WITHSCORES")
    if #head == 0 then break end
    local group = head[1]
    local id = takeFrom(group)
    redis.call("ZREM", GROUPS, group)
    if id then
      turn = math.max(turn, tonumber(head[2]))
      if hasWaiting(group) then redis.call("ZADD", GROUPS, turn + 1, group) end
      ids[#ids + 1] = id
      n = n - 1
    end
  end
  if turn ~= before then redis.call("HSET", META, "turn", turn) end
end

local asked = want
if want > 0 then
  local ordered = redis.call("ZCARD", PRIO) > 0
  if ordered then -- negative priorities come before everything
    local urgent = redis.call("ZRANGEBYSCORE", PRIO, "-inf", "(0", "LIMIT", 0, want)
    if #urgent > 0 then
      redis.call("ZREM", PRIO, unpack(urgent))
      collect(urgent)
    end
  end
  local grouped = redis.call("ZCARD", GROUPS) > 0
  if grouped and want > #ids then -- jobs with and without a group take turns
    local share = math.floor((want - #ids) / 2)
    if (want - #ids) % 2 == 1 then share = share + redis.call("HINCRBY", META, "side", 1) % 2 end
    local list = redis.call("LLEN", WAIT)
    takeGrouped(math.max(share, want - #ids - list))
  end
  if want > #ids then
    local plain = redis.call("LPOP", WAIT, want - #ids)
    if plain then collect(plain) end
  end
  if grouped and want > #ids then takeGrouped(want - #ids) end
  if ordered and want > #ids then collect(redis.call("ZPOPMIN", PRIO, want - #ids), 2) end
end

local taken, first, suffix = {}, 0, "@" .. WORKER .. "@" .. now
if #ids > 0 then
  local records = redis.call("HMGET", JOBS, unpack(ids))
  local tokensOf, leases = {}, {}
  first = redis.call("HINCRBY", META, "fence", #ids) - #ids
  for i, id in ipairs(ids) do
    if records[i] then
      taken[#taken + 1] = id
      taken[#taken + 1] = records[i]
      tokensOf[#tokensOf + 1] = id
      tokensOf[#tokensOf + 1] = (first + #taken / 2) .. suffix
      leases[#leases + 1] = now + LEASE_MS
      leases[#leases + 1] = id
      emit("active", id, "worker", WORKER)
    end
  end
  if #taken > 0 then
    redis.call("HSET", ACTIVE, unpack(tokensOf))
    redis.call("ZADD", LEASE, unpack(leases))
  end
  if tat then redis.call("HSET", META, "tat", tat + #ids * interval) end
end

-- Whoever is idle is told that there is more.
if (asked == 0 or #ids == asked)
  and (redis.call("LLEN", WAIT) > 0 or redis.call("ZCARD", PRIO) > 0 or redis.call("ZCARD", GROUPS) > 0)
then
  if asked > 0 or done + undone > 0 then redis.call("ZADD", WAKE, 0, "0") end
end
-- Who goes idle says so: a lone job is then handed over by add.lua itself.
if tonumber(ARGV[8]) > 0 and asked == tonumber(ARGV[3]) and #ids < asked then
  redis.call("ZADD", PARKED, now + ARGV[8], LEASE_MS .. " " .. WORKER)
else
  redis.call("ZREM", PARKED, LEASE_MS .. " " .. WORKER)
end
local head = redis.call("ZRANGE", DELAYED, 0, 0, "WITHSCORES")
if head[2] then bringForward(math.ceil(head[2] - now)) end
return { refused, due, later, first, suffix, taken }
