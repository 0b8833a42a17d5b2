-- Which leases have ended, and when the next one does.
--
-- KEYS  1 leases
-- ARGV  1 the maximum number of leases
-- Returns {ms until the next end, or -1 if there is no lease, then leases that have ended}
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", string.format("%.0f", now), "LIMIT", 0, tonumber(ARGV[1]))
local first = redis.call("ZRANGE", KEYS[1], 0, 0, "WITHSCORES")
local wait = -1
if first[2] then wait = math.max(0, tonumber(first[2]) - now) end
table.insert(due, 1, wait)
return due
