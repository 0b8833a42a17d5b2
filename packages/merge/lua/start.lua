-- Hands one due key out: marks when, and notices who never came for it.
--
-- KEYS  1-9 the unit
-- ARGV  1 key  2 startTimeoutMs  3 maxStarts  4 "drop": delete at the first timeout
-- Returns {"fresh"} handed out | {"again"} handed out before, nobody fetched it yet
--       | {"busy"} its batch is out | {"gone"} not due | {"dropped", items}
--       | {"expired", start} never fetched maxStarts times: to be buried
local timer, queue, items, data, locker, overwrite, start, state, singles = unpack(KEYS)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local due = tonumber(redis.call('ZSCORE', timer, ARGV[1]) or nil)
if not due or due * 1000 > now then return { 'gone' } end
local length = redis.call('LLEN', queue)
if length == 0 then
  redis.call('DEL', items, data, overwrite, start, state)
  redis.call('ZREM', timer, ARGV[1])
  redis.call('ZREM', singles, ARGV[1])
  return { 'gone' }
end
if redis.call('EXISTS', locker) == 1 then return { 'busy' } end

redis.call('HDEL', state, '') -- opens the way as in get.lua
local began = redis.call('GET', start)
if began then
  if now - tonumber(began) * 1000 < tonumber(ARGV[2]) then return { 'again' } end
  if ARGV[4] == 'drop' then
    redis.call('DEL', queue, items, data, overwrite, start, state)
    redis.call('ZREM', timer, ARGV[1])
    redis.call('ZREM', singles, ARGV[1])
    return { 'dropped', tostring(length) }
  end
  if redis.call('HINCRBY', state, 'starts', 1) >= tonumber(ARGV[3]) then
    return { 'expired', began }
  end
end
redis.call('SET', start, string.format('%.3f', now / 1000))
return { 'fresh' }
