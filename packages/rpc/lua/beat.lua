-- Renews the keys that show that a worker is alive: its works and group keys with their entries in the
-- indexes, and its leases on at-least-once calls.
-- KEYS: for each sign of life its index and its key, then the lease set of each at-least-once list
-- ARGV: ttl in ms, the worker's id, the number of signs of life, then for each its node and its value
-- Returns: {number of signs of life that were gone, number of lease sets on which the worker had no valid lease}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ttl, worker, signs = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local gone, lost = 0, 0
for i = 1, signs do
  local index, key = KEYS[2 * i - 1], KEYS[2 * i]
  if redis.call('EXISTS', key) == 0 then gone = gone + 1 end
  redis.call('SET', key, ARGV[3 + 2 * i], 'PX', ttl)
  redis.call('ZREMRANGEBYSCORE', index, '-inf', now)
  redis.call('ZADD', index, now + ttl, ARGV[2 + 2 * i])
  redis.call('PEXPIRE', index, ttl * 2)
end
for i = 2 * signs + 1, #KEYS do
  local lease = redis.call('ZSCORE', KEYS[i], worker)
  if not lease or tonumber(lease) <= now then lost = lost + 1 end
  redis.call('ZADD', KEYS[i], now + ttl, worker)
end
return { gone, lost }
