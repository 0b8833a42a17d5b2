-- Looks at one key without touching it.
--
-- KEYS  1-9 the unit  10 paused keys
-- ARGV  1 key  2 at most so many items, 0 none
-- Returns {score or "", items, ms of the lock or -2, flat state, flat data, heads, bodies,
--          1 if it is paused}
local timer, queue, items, data, locker, _, _, state = unpack(KEYS)
local last = tonumber(ARGV[2]) - 1
local heads, bodies = {}, {}
if last >= 0 then
  heads = redis.call('LRANGE', items, 0, last)
  bodies = redis.call('LRANGE', queue, 0, last)
end
return { redis.call('ZSCORE', timer, ARGV[1]) or '', redis.call('LLEN', queue),
  redis.call('PTTL', locker), redis.call('HGETALL', state), redis.call('HGETALL', data), heads, bodies,
  redis.call('SISMEMBER', KEYS[10], ARGV[1]) }
