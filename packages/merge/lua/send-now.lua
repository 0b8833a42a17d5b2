-- Makes a key fire now. If a batch is out, the fresh items fire right after it.
--
-- KEYS  1-11 the unit
-- ARGV  1 key  2 channel
-- Returns items in the key
local timer, queue, _, _, locker, _, _, state, _, replay = unpack(KEYS)
local call = redis.call
local known = call('HMGET', state, 'batch', 'replayed', 'ghost')
local length = call('LLEN', queue) + call('LLEN', replay)
if length == 0 then return 0 end
call('HDEL', state, '') -- allows the later writes, as in get.lua
local now = call('TIME')
local score = string.format('%d.%03d', now[1], math.floor(now[2] / 1000))
if known[1] or known[2] or known[3] then call('HSET', state, 'next', score) end
if call('EXISTS', locker) == 0 then
  call('ZADD', timer, score, ARGV[1])
  redis.pcall('PUBLISH', ARGV[2], 'insert')
end
return length
