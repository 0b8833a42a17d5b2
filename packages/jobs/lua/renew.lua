-- A worker's sign of life: extends the leases it still holds, and learns which it lost and which jobs
-- are to be cancelled.
--
-- KEYS  1 active, 2 lease, 3 cancels, 4 workers
-- ARGV  1 worker id, 2 lease ms, 3 what the worker says of itself (JSON), then pairs of id, token
-- Returns {ids lost, {id, reason ...} to cancel}.
local ACTIVE, LEASE, CANCELS, WORKERS = unpack(KEYS)
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = now + ARGV[2]
redis.call("HSET", WORKERS, ARGV[1], now .. " " .. ARGV[3])

local lost, cancelled = {}, {}
local cancelling = redis.call("HLEN", CANCELS) > 0
for first = 4, #ARGV, 1000 do
  local last = math.min(first + 998, #ARGV - 1)
  local ids, leases = {}, {}
  for i = first, last, 2 do ids[#ids + 1] = ARGV[i] end
  local tokens = redis.call("HMGET", ACTIVE, unpack(ids))
  for n, id in ipairs(ids) do
    if tokens[n] == ARGV[first + n * 2 - 1] then
      leases[#leases + 1] = ends
      leases[#leases + 1] = id
      local reason = cancelling and redis.call("HGET", CANCELS, id)
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
