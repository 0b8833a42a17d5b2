-- Makes a key fire now; behind a batch that is out, its fresh items fire right after it.
--
-- KEYS  1-9 the unit
-- ARGV  1 key  2 channel
-- Returns items in the key
local timer, queue, _, _, locker, _, _, state = unpack(KEYS)
local length = redis.call('LLEN', queue)
if length == 0 then return 0 end
redis.call('HDEL', state, '') -- opens the way as in get.lua
local now = redis.call('TIME')
local score = string.format('%d.%03d', now[1], math.floor(now[2] / 1000))
if redis.call('HEXISTS', state, 'batch') == 1 then redis.call('HSET', state, 'next', score) end
if redis.call('EXISTS', locker) == 0 then
  redis.call('ZADD', timer, score, ARGV[1])
  redis.call('PUBLISH', ARGV[2], 'insert')
end
return length
