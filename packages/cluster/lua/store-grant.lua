-- Grants a lease.
--
-- KEYS  1 leases
-- ARGV  1 the lease, 2 its time to live in ms
-- Returns 1
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("ZADD", KEYS[1], string.format("%.0f", now + ARGV[2]), ARGV[1])
return 1
