-- Moves a batch (or all items of a key that no consumer fetches) to the dead letters, with the reason.
--
-- Whole lists are renamed. A batch in front of fresh items is copied; it is at most as large as get.lua
-- returned it.
--
-- KEYS  1-11 the unit, 12-17 the letter
-- ARGV  1 key  2 channel  3 token, or "" for all of the key  4 without a token: the start that expired
--       5 id of the letter  6 reason
-- Returns items moved, -1 if the token does not hold the lock or the key was fetched meanwhile, or -2 if
--       the batch was deleted; then nothing has changed
local timer, queue, items, data, locker, overwrite, start, state, singles = unpack(KEYS)
local dead, record, deadBodies, deadItems, deadData, deadOf = unpack(KEYS, 12)
local call = redis.call
local length, headed = call('LLEN', queue), call('LLEN', items)
local known = call('HMGET', state, 'batch', 'next', 'attempts', 'delivery', 'replayed', 'request')
local count, replayed = length, tonumber(known[5] or nil) or 0 -- another program may have written anything
if ARGV[3] ~= '' then
  if call('GET', locker) ~= ARGV[3] then return -1 end
  count = math.min(tonumber(known[1] or 0), length)
  if count == 0 then return -2 end
elseif call('GET', start) ~= ARGV[4] then
  return -1
end
-- These reads fail for a key of a wrong type before anything has changed.
call('HLEN', data)
call('ZCARD', dead)
call('ZCARD', deadOf)
call('ZCARD', singles)
call('ZSCORE', timer, ARGV[1])

call('HDEL', state, '') -- allows the later writes, as in get.lua
local last = count == length and replayed == 0
local function move(from, to, most)
  if count == length then
    if most > 0 then call('RENAME', from, to) end
    return
  end
  for i = 0, math.min(count, most) - 1, 100 do
    call('RPUSH', to, unpack(call('LRANGE', from, i, math.min(i + 99, count - 1))))
  end
  call('LTRIM', from, count, -1)
end
move(queue, deadBodies, length)
move(items, deadItems, headed)
if call('EXISTS', data) == 1 then call(last and 'RENAME' or 'COPY', data, deadData) end
local time = call('TIME')
local at = string.format('%d.%03d', time[1], math.floor(time[2] / 1000))
call('HSET', record, 'key', ARGV[1], 'reason', ARGV[6], 'items', count, 'at', at,
  'attempts', known[3] or 0, 'delivery', known[4] or '', 'request', known[6] or '')
call('ZADD', dead, at, ARGV[5])
call('ZADD', deadOf, at, ARGV[5])

if last then
  call('DEL', overwrite, start, state)
  call('ZREM', timer, ARGV[1])
  call('ZREM', singles, ARGV[1])
else
  call('DEL', overwrite, start)
  call('HDEL', state, 'batch', 'delivery', 'attempts', 'starts', 'error')
  if replayed == 0 then call('HDEL', state, 'next') end
  call('ZADD', timer, replayed == 0 and tonumber(known[2] or nil) and known[2] or at, ARGV[1])
  redis.pcall('PUBLISH', ARGV[2], 'insert')
end
if ARGV[3] ~= '' then call('DEL', locker) end
return count
