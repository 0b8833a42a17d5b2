-- Hands out one due key: records the time, and detects that no consumer fetched it.
--
-- KEYS  1-11 the unit
-- ARGV  1 key  2 startTimeoutMs  3 maxStarts  4 "drop": delete at the first timeout
-- Returns {"fresh"} handed out | {"again"} handed out before, not fetched yet
--       | {"busy"} its batch is out | {"gone"} not due | {"dropped", items}
--       | {"expired", start} handed out maxStarts times and never fetched: to be buried
local timer, queue, items, data, locker, overwrite, start, state, singles, replay, replayItems = unpack(KEYS)
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local due = tonumber(call('ZSCORE', timer, ARGV[1]) or nil)
if not due or due * 1000 > now then return { 'gone' } end
local length = call('LLEN', queue)
local waiting = call('LLEN', replay)
local function wipe()
  call('UNLINK', queue, items, data, overwrite, start, state, replay, replayItems)
  call('ZREM', timer, ARGV[1])
  call('ZREM', singles, ARGV[1])
end
if length + waiting == 0 then
  wipe()
  return { 'gone' }
end
if call('EXISTS', locker) == 1 then return { 'busy' } end

call('HDEL', state, '') -- allows the later writes, as in get.lua
local known = call('HMGET', state, 'batch', 'next', 'ghost')
if known[3] and not known[1] and waiting == 0 and (tonumber(known[2] or nil) or 0) * 1000 > now then
  call('HDEL', state, 'ghost', 'next') -- as in get.lua: the fresh items have their own time
  call('ZADD', timer, known[2], ARGV[1])
  return { 'gone' }
end
local began = call('GET', start)
if began then
  if now - tonumber(began) * 1000 < tonumber(ARGV[2]) then return { 'again' } end
  if ARGV[4] == 'drop' then
    wipe()
    return { 'dropped', tostring(length + waiting) }
  end
  if length > 0 and call('HINCRBY', state, 'starts', 1) >= tonumber(ARGV[3]) then
    return { 'expired', began }
  end
end
call('SET', start, string.format('%.3f', now / 1000))
return { 'fresh' }
