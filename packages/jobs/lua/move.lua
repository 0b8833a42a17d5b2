-- Handles everything that is due: jobs whose lease has expired and jobs whose delay is over go back to where
-- they wait, and timers fire. Work per call is bounded; the caller repeats it while there is more.
--
-- KEYS  the queue's, all
-- ARGV  1 maximum of each kind
-- Returns {jobs moved, jobs whose lease had expired, ms until the next is due or -1, messages in the outbox}.
local LIMIT = tonumber(ARGV[1])
local MINUTE, DAY_OF_MINUTES = 60000, 1440
local FEW, LARGE = 8, 262144 -- records read at once; after FEW of more bytes than LARGE, one
local SWEEP_MS = 10 -- between two pages

local problem = wrongType(1, #KEYS)
if problem then return problem end

-- Removing something first lets this script work while Redis is out of memory.
redis.call("ZREMRANGEBYSCORE", IDLE, "-inf", now)
local set = redis.call("HMGET", META, "listen", "minute", "completed", "failed", "retried", "stalled", "scanadds")
listening = isLater(set[1])

-- Lost leases. The stall is counted in the record, so that a job that crashes its worker every time ends.
local stalled, returned, lost, bytes = 0, 0, 0, 0
for _, id in ipairs(redis.call("ZRANGEBYSCORE", LEASE, "-inf", now, "LIMIT", 0, LIMIT)) do
  if bytes >= MOST_BYTES or forgotten >= MOST_OUTCOMES then break end
  lost = lost + 1
  local token = redis.call("HGET", ACTIVE, id)
  redis.call("ZREM", LEASE, id)
  redis.call("HDEL", ACTIVE, id)
  local record = redis.call("HGET", JOBS, id)
  if record then
    bytes = bytes + #record
    local created, attempts, stalls, opts, rest = parse(record)
    local o = optionsOf(opts)
    local fence, holder = string.match(token or "", "^(%d+)(@[^@]*@%d+)")
    local untaken = fence and redis.call("ZREM", WAKE, fence .. holder .. "\n" .. id .. "\n" .. record) == 1
    if not untaken then -- a job that was handed over but not taken did not lose a worker
      stalled = stalled + 1
      if created then
        redis.call("HSET", JOBS, id, created .. ";" .. attempts .. ";" .. (stalls + 1) .. ";" .. opts .. rest)
      end
      if o.g then release(o.g) end
      emit("stalled", id)
    end
    local reason = reasonIn(token)
    if reason then -- it was cancelled before its worker was lost
      finishCancelled(id, reason)
    else
      placeOrdered(id, o, placeIn(token))
      returned = returned + 1
    end
  end
end
if stalled > 0 then redis.call("HINCRBY", META, "stalled", stalled) end

-- Delays that are over.
local ready, moved = redis.call("ZRANGEBYSCORE", DELAYED, "-inf", now, "LIMIT", 0, LIMIT), returned
local read, few = 0, 1
while read < #ready and bytes < MOST_BYTES do
  local ids, tail, before = {}, {}, bytes
  for i = read + 1, math.min(read + few, #ready) do ids[#ids + 1] = ready[i] end
  for i, record in ipairs(redis.call("HMGET", JOBS, unpack(ids))) do
    if record then
      bytes = bytes + #record
      local o = optionsIn(record)
      if o.g or o.p then placeOrdered(ids[i], o, false) else tail[#tail + 1] = ids[i] end
    end
  end
  if #tail > 0 then redis.call("RPUSH", WAIT, unpack(tail)) end
  redis.call("ZREM", DELAYED, unpack(ids))
  moved = moved + #ids
  read = read + #ids
  few = bytes - before > LARGE and 1 or FEW
end
if moved > 0 then redis.call("ZADD", WAKE, 0, "0") end

-- Timers: "j" an ended job need not be kept any longer, "w" its outcome need not be kept for callers that await
-- it, "d" a dedupe key is free, "g" a group may go on, "t" a group's bucket is full. A timer left by an earlier
-- job or group of the same name changes nothing.
for _, timer in ipairs(redis.call("ZRANGEBYSCORE", TIMERS, "-inf", now, "LIMIT", 0, LIMIT)) do
  if forgotten >= MOST_OUTCOMES or readBytes >= MOST_BYTES then break end
  local kind, name = string.sub(timer, 1, 1), string.sub(timer, 2)
  redis.call("ZREM", TIMERS, timer)
  if kind == "j" then
    if redis.call("ZREM", COMPLETED, name) + redis.call("ZREM", FAILED, name) > 0 then
      forget(name, optionsOfEnded(name))
    end
  elseif kind == "w" then
    local ok = redis.call("ZSCORE", COMPLETED, name)
    if ok or redis.call("ZSCORE", FAILED, name) then
      local most = retentionOf(optionsOfEnded(name), ok)
      if most > 0 then trim(ok, most) end
    end
  elseif kind == "g" then
    redis.call("ZREM", CAPPED, name)
    if hasWaiting(name) then
      joinRound(name)
      redis.call("ZADD", WAKE, 0, "0")
    end
  elseif kind == "t" then
    if not isLater(redis.call("HGET", USAGE, "t" .. name)) then redis.call("HDEL", USAGE, "t" .. name) end
  elseif kind == "d" then
    local ends = tonumber(string.match(redis.call("HGET", DEDUPE, name) or "", "^(%d+):"))
    if ends and ends > 0 and ends <= now then redis.call("HDEL", DEDUPE, name) end
  end
end

-- Removes fields whose value carries an old time, some per call. Returns whether it has seen all of them.
local function sweep(key, cursor, pattern, age)
  local page = redis.call("HSCAN", key, redis.call("HGET", META, cursor) or "0", "COUNT", 200)
  redis.call("HSET", META, cursor, page[1])
  for i = 1, #page[2], 2 do
    local seen = tonumber(string.match(page[2][i + 1], pattern))
    if not seen or now - seen > age then redis.call("HDEL", key, page[2][i]) end
  end
  return page[1] == "0"
end

-- A lease that ends later than its worker could have asked for was written before the clock was set back. It is
-- shortened to the normal length: a live worker renews it, and the job of a dead one is taken back.
local function shortenLeases()
  local ends = redis.call("ZREVRANGEBYSCORE", LEASE, "+inf", now + 1, "WITHSCORES", "LIMIT", 0, LIMIT)
  local shortened = 0
  for i = 1, #ends, 2 do
    local worker = string.match(redis.call("HGET", ACTIVE, ends[i]) or "", "^%d+@([^@]*)@")
    local about = optionsOf(string.match(redis.call("HGET", WORKERS, worker or "") or "", "^%d+ (.*)$"))
    local most = count(about.leaseMs, 1, 2147483647) and about.leaseMs or 30000
    if tonumber(ends[i + 1]) > now + most + 1000 then
      redis.call("ZADD", LEASE, now + most, ends[i])
      shortened = shortened + 1
    end
  end
  return shortened
end

-- A group whose hold starts in the future met its limit before the clock was set back, and its timer would
-- fire too late by the same amount.
local function freeGroups()
  local groups = redis.call("ZREVRANGEBYSCORE", CAPPED, "+inf", now + 1000, "LIMIT", 0, LIMIT)
  for _, group in ipairs(groups) do
    redis.call("ZREM", CAPPED, group)
    redis.call("ZREM", TIMERS, "g" .. group)
    if hasWaiting(group) then joinRound(group) end
  end
  if #groups > 0 then redis.call("ZADD", WAKE, 0, "0") end
  return #groups
end

-- Once a minute: the numbers for charts, and the cleanup of leftovers.
local minute = math.floor(now / MINUTE)
if tonumber(set[2] or 0) ~= minute and shortenLeases() + freeGroups() < LIMIT then -- else the next call goes on
  redis.call("HSET", META, "minute", minute)
  local waiting = redis.call("LLEN", WAIT) + redis.call("ZCARD", PRIO) + redis.call("ZCARD", GROUPED)
  local totals = { minute * MINUTE, set[3] or 0, set[4] or 0, set[5] or 0, set[6] or 0, waiting, redis.call("ZCARD", DELAYED), redis.call("HLEN", ACTIVE) }
  redis.call("RPUSH", HISTORY, table.concat(totals, " "))
  redis.call("LTRIM", HISTORY, -DAY_OF_MINUTES, -1)
  if not listening then redis.call("UNLINK", EVENTS) end
  sweep(WORKERS, "scanworkers", "^(%d+)", 86400000)
  if redis.call("HLEN", ADDS) > 1000 then set[7] = "1" end
end
-- Every producer has a field in ADDS, and so has every child that came from another queue. Old fields are removed
-- at the pace at which new ones come, a page per call until the end.
if set[7] then
  if sweep(ADDS, "scanadds", "@(%d+)", 3600000) then redis.call("HDEL", META, "scanadds") else bringForward(SWEEP_MS) end
end

for _, key in ipairs({ DELAYED, LEASE, TIMERS }) do
  local head = redis.call("ZRANGE", key, 0, 0, "WITHSCORES")
  if head[2] then bringForward(math.ceil(head[2] - now)) end
end
return { moved, lost, due, redis.call("HLEN", OUTBOX) }
