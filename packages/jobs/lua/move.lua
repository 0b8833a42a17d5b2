-- Does what time has made due: jobs whose lease has run out and jobs whose delay is over go to where
-- they wait, alarms ring. Bounded work per call; called again while there is more.
--
-- KEYS  the queue's, in the order of keys.ts
-- ARGV  1 how many of each kind at most
-- Returns {jobs moved, jobs whose lease had run out, ms until the next is due or -1}.
local META, JOBS, WAIT, PRIO, GROUPS, GROUPED, TENANTS, DELAYED, ACTIVE, LEASE, NOTES, COMPLETED, FAILED, KIDS, _, DEDUPE, ALARMS, _, _, WAKE, EVENTS =
  unpack(KEYS)
local LIMIT = tonumber(ARGV[1])
local FRONT = 1000000 -- a score below this is no time: the job was handed back and goes to the front

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local listening = tonumber(redis.call("HGET", META, "listen") or 0) > now
local turn = tonumber(redis.call("HGET", META, "turn") or 0)

local function parse(record)
  return string.match(record, "^(%d+);(%d+);(%d+);([^\n]*)(.*)$")
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

-- A job of the group is no longer running; if you change this, change next.lua too.
local function release(group)
  if redis.call("HINCRBY", TENANTS, "a" .. group, -1) <= 0 then redis.call("HDEL", TENANTS, "a" .. group) end
  if hasWaiting(group) then redis.call("ZADD", GROUPS, "NX", turn + 1, group) end
end

-- Lost leases. The stall is counted in the record: a job that takes its worker down every time must end.
local stalled = 0
local lost = redis.call("ZRANGEBYSCORE", LEASE, "-inf", now, "LIMIT", 0, LIMIT)
for n, id in ipairs(lost) do
  local token = redis.call("HGET", ACTIVE, id)
  redis.call("ZREM", LEASE, id)
  redis.call("HDEL", ACTIVE, id)
  local record = redis.call("HGET", JOBS, id)
  local untaken = token and record and redis.call("ZREM", WAKE, token .. "\n" .. id .. "\n" .. record) == 1
  if untaken then -- handed over, but nobody came for it: no worker was lost
    redis.call("ZADD", DELAYED, n, id)
  elseif record then
    stalled = stalled + 1
    local created, attempts, stalls, opts, rest = parse(record)
    if created then
      redis.call("HSET", JOBS, id, created .. ";" .. attempts .. ";" .. (stalls + 1) .. ";" .. opts .. rest)
      local o = optionsOf(opts)
      if o.g then release(o.g) end
    end
    redis.call("ZADD", DELAYED, n, id)
    if listening then
      redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", "stalled", "id", id)
    end
  end
end
if stalled > 0 then redis.call("HINCRBY", META, "stalled", stalled) end

-- Where a job waits; if you change this, change add.lua too.
local front, tail = {}, {}
local function place(id, record, score)
  local opts = select(4, parse(record))
  local o = optionsOf(opts)
  if o.g then
    -- Handed back: in front of all that were numbered.
    local seq = score < FRONT and score or redis.call("HINCRBY", META, "seq", 1)
    local order = string.format("%06x%013x", (o.p or 0) + 1048576, seq)
    redis.call("ZADD", GROUPED, 0, o.g .. "\0" .. order .. id)
    redis.call("ZADD", GROUPS, "NX", turn + 1, o.g)
  elseif o.p then
    local seq = score < FRONT and 0 or redis.call("HINCRBY", META, "seq", 1)
    redis.call("ZADD", PRIO, o.p * 4294967296 + seq, id)
  elseif score < FRONT then
    front[#front + 1] = id
  else
    tail[#tail + 1] = id
  end
end

local pairsOf = redis.call("ZRANGEBYSCORE", DELAYED, "-inf", now, "WITHSCORES", "LIMIT", 0, LIMIT)
local ids = {}
for i = 1, #pairsOf, 2 do ids[#ids + 1] = pairsOf[i] end
if #ids > 0 then
  local records = redis.call("HMGET", JOBS, unpack(ids))
  for i, id in ipairs(ids) do
    if records[i] then place(id, records[i], tonumber(pairsOf[i * 2])) end
  end
  redis.call("ZREM", DELAYED, unpack(ids))
  for i = #front, 1, -1 do redis.call("LPUSH", WAIT, front[i]) end
  if #tail > 0 then redis.call("RPUSH", WAIT, unpack(tail)) end
  redis.call("ZADD", WAKE, 0, "0")
end

-- Alarms: "j" an ended job need not be kept any longer, "d" a dedupe key is free, "g" a group may go on.
local function drop(id)
  local record = redis.call("HGET", JOBS, id)
  local opts = record and select(4, parse(record))
  local o = optionsOf(opts)
  if o.n then
    redis.call("HDEL", KIDS, "n" .. id)
    for i = 0, o.n - 1 do redis.call("HDEL", KIDS, id .. "/" .. i) end
  end
  redis.call("HDEL", JOBS, id)
  redis.call("HDEL", NOTES, id)
  redis.call("ZREM", COMPLETED, id)
  redis.call("ZREM", FAILED, id)
end

for _, alarm in ipairs(redis.call("ZRANGEBYSCORE", ALARMS, "-inf", now, "LIMIT", 0, LIMIT)) do
  local kind, name = string.sub(alarm, 1, 1), string.sub(alarm, 2)
  redis.call("ZREM", ALARMS, alarm)
  if kind == "j" then
    drop(name)
  elseif kind == "g" then
    if hasWaiting(name) then
      redis.call("ZADD", GROUPS, "NX", turn + 1, name)
      redis.call("ZADD", WAKE, 0, "0")
    end
  else
    local held = redis.call("HGET", DEDUPE, name)
    local ends = held and tonumber(string.match(held, "^(%d+)"))
    if ends and ends > 0 and ends <= now then redis.call("HDEL", DEDUPE, name) end
  end
end

local nextMs = -1
for _, key in ipairs({ DELAYED, LEASE, ALARMS }) do
  local head = redis.call("ZRANGE", key, 0, 0, "WITHSCORES")
  if head[2] then
    local ms = math.max(0, math.ceil(head[2] - now))
    if nextMs < 0 or ms < nextMs then nextMs = ms end
  end
end
return { #ids, #lost, nextMs }
