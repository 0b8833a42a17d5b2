-- Moves a dead letter, or a part of it, back to its key. The caller repeats it until nothing is left.
--
-- The items go to the key's replayed group (push.lua): they leave as soon as no batch is out, before
-- fresh items, whose time does not change.
--
-- KEYS  1-11 the unit, 12-17 the letter
-- ARGV  1 key  2 channel  3 id of the letter  4 "1": a single, delivered item by item
--       5 maximum of items  6 maximum of bytes
-- Returns {items moved, items left}, or {-1, 0} if there is no such letter
local timer, queue, _, data, locker, _, _, state, singles, replay, replayItems = unpack(KEYS)
local dead, record, deadBodies, deadItems, deadData, deadOf = unpack(KEYS, 12)
local call = redis.call
if call('HGET', record, 'key') ~= ARGV[1] then return { -1, 0 } end

local total, headed = call('LLEN', deadBodies), call('LLEN', deadItems)
local waiting, before = call('LLEN', replay), call('LLEN', replayItems)
local known = call('HMGET', state, 'batch', 'next', 'request', 'ghost')
local current = call('ZSCORE', timer, ARGV[1])
local fresh = call('LLEN', queue) - tonumber(known[1] or 0)
local time = call('TIME')
local now = string.format('%d.%03d', time[1], math.floor(time[2] / 1000))
local fields = call('EXISTS', data) == 1 and call('HLEN', deadData) or 0

local count = total
if waiting == 0 and before == 0 and headed == total and total > 0 then
  call('RENAME', deadBodies, replay)
  call('RENAME', deadItems, replayItems)
else
  count = math.min(total, tonumber(ARGV[5]))
  local heads = call('LRANGE', deadItems, 0, count - 1)
  local sum = 0
  for i = 1, count do
    local size = heads[i] and string.match(heads[i], '^%S+ %S+ (%d+) ')
    sum = sum + (tonumber(size) or #(call('LINDEX', deadBodies, i - 1) or ''))
    if sum > tonumber(ARGV[6]) and i > 1 then
      count = i - 1
      break
    end
  end
  local bodies = call('LRANGE', deadBodies, 0, count - 1)
  for i = 1, count do
    call('RPUSH', replay, bodies[i])
    call('RPUSH', replayItems, heads[i] or string.format('x:%s-l%d %d - -', ARGV[3], i, time[1] * 1000))
  end
  call('LTRIM', deadBodies, count, -1)
  call('LTRIM', deadItems, count, -1)
  call('HINCRBY', record, 'items', -count)
end
-- Its pushes may have had idempotency keys: if the key is deleted now, repeated pushes store again (remove.lua).
call('HSET', state, 'replayed', waiting + count, 'idempotent', '1')
if known[4] then call('PERSIST', state) end
local request = call('HGET', record, 'request')
if request and request ~= '' and not known[3] then call('HSET', state, 'request', request) end
if ARGV[4] == '1' then call('ZADD', singles, 0, ARGV[1]) end

if not known[1] and (not known[4] or call('EXISTS', locker) == 0) then
  if fresh > 0 and not known[2] then call('HSET', state, 'next', current or now) end
  call('ZADD', timer, now, ARGV[1])
elseif not current then
  call('ZADD', timer, string.format('%.3f', tonumber(now) + math.max(0, call('PTTL', locker)) / 1000), ARGV[1])
end
if count == total then
  -- Fields of newer items win.
  if call('EXISTS', data) == 0 then
    if call('EXISTS', deadData) == 1 then call('RENAME', deadData, data) end
  elseif fields <= 1000 then
    local old = call('HGETALL', deadData)
    for i = 1, #old, 2 do call('HSETNX', data, old[i], old[i + 1]) end
  end
  call('UNLINK', record, deadBodies, deadItems, deadData)
  call('ZREM', dead, ARGV[3])
  call('ZREM', deadOf, ARGV[3])
end
redis.pcall('PUBLISH', ARGV[2], 'insert')
return { count, total - count }
