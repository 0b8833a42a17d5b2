-- Adds jobs. A job whose id exists already, or whose dedupe key is held, is not added a second time, so
-- running the script again after a lost answer does no harm.
--
-- KEYS  the queue's, in the order of keys.ts
-- ARGV  1  the control channel
--       then for each job
--       +0 id
--       +1 where it goes: "" for the end of the waiting list, else JSON
--          {d delay ms | at due ms, p priority, g group, l 1 = in front, b 1 = waits for its children,
--           n number of children, w 1 = its end is awaited, k [dedupe key, ttl ms or 0, "keep"|"replace", longest wait ms or 0]}
--       +2 the record without its first field
-- Returns the number of jobs when all were added; else a list of: index (from 0), id that is there
--         instead, "exists" | "kept" | "replaced" for each job that was not.
local META, JOBS, WAIT, PRIO, GROUPS, GROUPED, _, DELAYED, ACTIVE, LEASE, _, COMPLETED, FAILED, KIDS, BLOCKED, DEDUPE, ALARMS, WAITED, _, WAKE, EVENTS, PARKED =
  unpack(KEYS)
local CONTROL = ARGV[1]
local CHUNK = 500 -- Lua can unpack only so many values at once

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = (#ARGV - 1) / 3

local fields, tail, other = {}, {}, {} -- new records; ids for the end of the list; jobs not added
local seen, born, earlier, handedOver = {}, {}, false, false

-- Where a job waits; if you change this, change move.lua too.
local function place(id, how)
  local due = how.at or (how.d and now + how.d) or 0
  if how.b then
    redis.call("ZADD", BLOCKED, now, id)
    redis.call("HSET", KIDS, "n" .. id, how.n)
  elseif due > now then
    redis.call("ZADD", DELAYED, due, id)
    earlier = earlier or redis.call("ZRANGE", DELAYED, 0, 0)[1] == id
  elseif how.g then
    local seq = redis.call("HINCRBY", META, "seq", 1)
    local order = string.format("%06x%013x", (how.p or 0) + 1048576, seq)
    redis.call("ZADD", GROUPED, 0, how.g .. "\0" .. order .. id)
    local turn = tonumber(redis.call("HGET", META, "turn") or 0)
    redis.call("ZADD", GROUPS, "NX", turn + 1, how.g)
  elseif how.p then
    redis.call("ZADD", PRIO, how.p * 4294967296 + redis.call("HINCRBY", META, "seq", 1), id)
  elseif how.l then
    redis.call("LPUSH", WAIT, id)
  else
    tail[#tail + 1] = id
  end
end

-- Whether the job can still be given other data: it has neither started nor ended.
local function pending(id)
  return redis.call("HEXISTS", JOBS, id) == 1
    and redis.call("HEXISTS", ACTIVE, id) == 0
    and not redis.call("ZSCORE", COMPLETED, id)
    and not redis.call("ZSCORE", FAILED, id)
end

local function replace(id, how, rest)
  local old = redis.call("HGET", JOBS, id)
  local created = string.match(old, "^(%d+)")
  redis.call("HSET", JOBS, id, created .. rest)
  if redis.call("ZSCORE", DELAYED, id) then
    local due = how.at or now + (how.d or 0)
    local longest = how.k[4]
    if longest > 0 then due = math.min(due, created + longest) end
    redis.call("ZADD", DELAYED, due, id)
    earlier = true
  end
end

-- Takes the dedupe key for `id`, or says which job has it and what became of the new one.
local function claim(id, how, rest)
  local key, ttl, mode = how.k[1], how.k[2], how.k[3]
  local held = redis.call("HGET", DEDUPE, key)
  if held then
    local ends, holder = string.match(held, "^(%d+):(.*)$")
    ends = tonumber(ends)
    if ends == 0 or ends > now then
      if mode ~= "replace" then return holder, "kept" end
      if pending(holder) then
        replace(holder, how, rest)
        if ttl > 0 then
          redis.call("HSET", DEDUPE, key, (now + ttl) .. ":" .. holder)
          redis.call("ZADD", ALARMS, now + ttl, "d" .. key)
        end
        return holder, "replaced"
      end
    end
  end
  redis.call("HSET", DEDUPE, key, (ttl > 0 and now + ttl or 0) .. ":" .. id)
  if ttl > 0 then redis.call("ZADD", ALARMS, now + ttl, "d" .. key) end
end

-- The lease ms of a worker that sits idle, if nothing stands between it and a new job. Its place is used up.
local function idleWorker()
  local idle = redis.call("ZRANGE", PARKED, -1, -1, "WITHSCORES")
  if not idle[2] or tonumber(idle[2]) <= now then return false end
  local limits = redis.call("HMGET", META, "paused", "hold", "conc", "max")
  if limits[1] or tonumber(limits[2] or 0) > now or limits[3] or limits[4] then return false end
  local others = redis.call("LLEN", WAIT) + redis.call("ZCARD", PRIO) + redis.call("ZCARD", GROUPS)
  if others > 0 then return false end
  redis.call("ZREM", PARKED, idle[1])
  return tonumber(string.match(idle[1], "^(%d+) ")) or 30000
end

-- Takes the job for whoever blocks on WAKE. If nobody comes for it, move.lua finds it there.
local function handOver(id, record, leaseMs)
  local token = redis.call("HINCRBY", META, "fence", 1) .. "@handover@" .. now
  redis.call("HSET", JOBS, id, record)
  redis.call("HSET", ACTIVE, id, token)
  redis.call("ZADD", LEASE, now + leaseMs, id)
  redis.call("ZADD", WAKE, -1, token .. "\n" .. id .. "\n" .. record)
end

local function add(index, id, how, rest)
  if how ~= "" then
    how = cjson.decode(how)
    if how.k then
      local holder, outcome = claim(id, how, rest)
      if holder then
        other[#other + 1] = index
        other[#other + 1] = holder
        other[#other + 1] = outcome
        return
      end
    end
    redis.call("HSET", JOBS, id, now .. rest) -- at once: the next one may want to replace it
    if how.w then redis.call("SADD", WAITED, id) end
    place(id, how)
    born[#born + 1] = id
    return
  end
  local leaseMs = count == 1 and idleWorker()
  if leaseMs then
    handOver(id, now .. rest, leaseMs)
    handedOver = true
  else
    fields[#fields + 1] = id
    fields[#fields + 1] = now .. rest
    tail[#tail + 1] = id
  end
  born[#born + 1] = id
end

for first = 0, count - 1, CHUNK do
  local last = math.min(first + CHUNK, count) - 1
  local ids = {}
  for i = first, last do ids[#ids + 1] = ARGV[2 + i * 3] end
  local existing = redis.call("HMGET", JOBS, unpack(ids))
  for i = first, last do
    local id = ids[i - first + 1]
    if existing[i - first + 1] or seen[id] then
      other[#other + 1] = i
      other[#other + 1] = id
      other[#other + 1] = "exists"
    else
      seen[id] = true
      add(i, id, ARGV[3 + i * 3], ARGV[4 + i * 3])
    end
  end
  if #fields > 0 then redis.call("HSET", JOBS, unpack(fields)) end
  if #tail > 0 then redis.call("RPUSH", WAIT, unpack(tail)) end
  fields, tail = {}, {}
end

if #born > 0 then
  if not handedOver then redis.call("ZADD", WAKE, 0, "0") end
  if tonumber(redis.call("HGET", META, "listen") or 0) > now then
    for _, id in ipairs(born) do
      redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", "added", "id", id)
    end
    if handedOver then
      redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", "active", "id", born[1], "worker", "handover")
    end
  end
end
if earlier then redis.call("PUBLISH", CONTROL, "due") end
if #other > 0 then return other end
return #born
