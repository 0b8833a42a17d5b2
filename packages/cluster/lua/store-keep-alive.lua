-- Renews a lease that has not ended. Begins with ZREM, so it works without memory: what runs goes on.
--
-- KEYS  1 leases
-- ARGV  1 the lease, 2 its time to live in ms
-- Returns the time to live, or 0 if the lease has ended
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = redis.call("ZSCORE", KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= now then return 0 end
redis.call("ZREM", KEYS[1], "")
redis.call("ZADD", KEYS[1], "XX", string.format("%.0f", now + ARGV[2]), ARGV[1])
return tonumber(ARGV[2])
