-- A worker's heartbeat: extends the leases it still holds, makes jobs that were handed over its own, and returns
-- the leases it lost and the jobs to cancel.
--
-- KEYS  1 active, 2 lease, 3 workers, 4 meta, 5 events, 6 jobs
-- ARGV  1 worker id, 2 lease ms, 3 the worker's description (JSON), then pairs of id, fence "@"
-- Returns {ids lost, {id, reason ...} to cancel}.
local ACTIVE, LEASE, WORKERS, META, EVENTS, JOBS = unpack(KEYS)
local WORKER = ARGV[1]
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = now + ARGV[2]
-- Removing something first lets this script work while Redis is out of memory.
redis.call("HDEL", WORKERS, "")
redis.call("HSET", WORKERS, WORKER, now .. " " .. ARGV[3])

-- A job that was handed over belongs to this worker from now on, and is shown as such.
local function adopt(id, token)
  local fence, rest = string.match(token, "^(%d+)@handover@(.*)$")
  redis.call("HSET", ACTIVE, id, fence .. "@" .. WORKER .. "@" .. rest)
  if (tonumber(redis.call("HGET", META, "listen") or 0) or 0) > now then
    local name = string.match(redis.call("HGET", JOBS, id) or "", "^[^\n]*\n([^\n]*)\n") or ""
    redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", "active", "id", id, "name", name, "worker", WORKER)
  end
end

local lost, cancelled = {}, {}
for first = 4, #ARGV, 1000 do
  local last = math.min(first + 998, #ARGV - 1)
  local ids, leases = {}, {}
  for i = first, last, 2 do ids[#ids + 1] = ARGV[i] end
  local tokens = redis.call("HMGET", ACTIVE, unpack(ids))
  for n, id in ipairs(ids) do
    local token, fence = tokens[n], ARGV[first + n * 2 - 1]
    if token and string.sub(token, 1, #fence) == fence then
      leases[#leases + 1] = ends
      leases[#leases + 1] = id
      if string.find(token, "@handover@", 1, true) then adopt(id, token) end
      local reason = string.match(token, "^%d+@[^@]*@[%d/]+@(.*)$")
      if reason then
        cancelled[#cancelled + 1] = id
        cancelled[#cancelled + 1] = reason
      end
    else
      lost[#lost + 1] = id
    end
  end
  if #leases > 0 then redis.call("ZADD", LEASE, unpack(leases)) end
end
return { lost, cancelled }
