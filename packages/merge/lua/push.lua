-- Appends items to one key and settles when it fires.
--
-- A key has a batch that is out (being delivered, or failed and waiting for its retry: state.batch
-- items at the head) and fresh items behind it. The time of the fresh ones is the timer's while no
-- batch is out, and state.next until then: while the lock is held the timer belongs to the lease.
--
-- KEYS  1 timer  2 queue  3 items  4 locker  5 overwrite  6 state  7 data  8 singles
--       9 idempotency record (only with one item); 7 and 8 may be left out with what needs them
-- ARGV  1 key  2 channel  3 maxItems  4 maxBytes  5 maxWaitMs  6 "1": a single, delivered item by item
--       7 ms to remember the idempotency key  8 number of data words, then these words: field, value ...
--       then five words per item: ontime (seconds, "0" now), always|once, id, rest of its head, body
-- Returns {score that is in force, fresh items, id of the last item}
local timer, queue, items, locker, overwrite, state = unpack(KEYS, 1, 6)
local call, floor, key, words = redis.call, math.floor, ARGV[1], tonumber(ARGV[8])
local begin, last = 9 + words, #ARGV

if KEYS[9] then
  local seen = call('GET', KEYS[9])
  if seen then
    local score, fresh, id = string.match(seen, '^(%S+) (%S+) (%S+)$')
    return { score, tonumber(fresh), id }
  end
end

local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local at = ' ' .. string.format('%d', now)

-- Bodies and heads; a single item, the usual case, needs no tables.
local count, length, headed, bodies, heads = 1
if last == begin + 4 then
  length = call('RPUSH', queue, ARGV[last])
  headed = call('RPUSH', items, ARGV[begin + 2] .. at .. ARGV[begin + 3])
else
  bodies, heads = {}, {}
  for i = begin, last, 5 do
    bodies[#bodies + 1] = ARGV[i + 4]
    heads[#heads + 1] = ARGV[i + 2] .. at .. ARGV[i + 3]
  end
  count = #bodies
  length = call('RPUSH', queue, unpack(bodies))
  headed = call('RPUSH', items, unpack(heads))
end
if headed < length then -- a program of the seed pushed before us, without heads
  heads = heads or { ARGV[begin + 2] .. at .. ARGV[begin + 3] }
  call('LTRIM', items, 0, -1 - count)
  for i = 1, length - headed do call('RPUSH', items, 'x:' .. i .. '-' .. ARGV[begin + 2] .. at .. ' -') end
  call('RPUSH', items, unpack(heads))
elseif headed > length then -- and one of the seed trimmed the list without the heads
  call('LTRIM', items, headed - length, -1)
end
if words > 0 then call('HSET', KEYS[7], unpack(ARGV, 9, 8 + words)) end
if ARGV[6] == '1' then call('ZADD', KEYS[8], 0, key) end

local before = length - count
local known = call('HMGET', state, 'batch', 'next', 'bound', 'bytes')
local out = 0
if known[1] then
  out = tonumber(known[1])
  if out > before then -- the batch was completed by a program of the seed
    out = before
    call('HDEL', state, 'batch', 'delivery', 'attempts', 'next', 'error')
  end
end
local fresh, bound, bytes = before - out, tonumber(known[3] or 0), tonumber(known[4] or 0)
local locked = out > 0 and call('EXISTS', locker) == 1
local marked = not locked and call('DEL', overwrite) == 1

-- When the fresh items fire: as text for Redis, and in ms to reckon with.
local score, due
if fresh > 0 then
  score = out > 0 and known[2] or call('ZSCORE', timer, key)
  due = score and floor(score * 1000 + 0.5)
end
local function set(ms, given)
  due = ms
  score = given or string.format('%.3f', ms / 1000)
end
local moved, retried = false, nil
local maxItems, maxBytes, maxWaitMs = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
for i = begin, last, 5 do
  local given, always = ARGV[i], ARGV[i + 1] == 'always'
  local wanted = floor(given * 1000 + 0.5)
  if wanted <= 0 then wanted, given = now, nil end
  if fresh == 0 then -- the first of a new batch: from here on maxWaitMs runs
    bound, bytes, moved = math.max(wanted, now + maxWaitMs), 0, true
    set(wanted, given)
  elseif always or marked or not due then
    local capped = bound > 0 and wanted > bound
    if wanted ~= due or capped then
      moved = true
      set(capped and bound or wanted, not capped and given or nil)
    end
  end
  if out > 0 and not locked and (always or marked) then retried = wanted end
  marked = false
  fresh, bytes = fresh + 1, bytes + #ARGV[i + 4]
  if (fresh >= maxItems or bytes >= maxBytes) and due > now then
    moved = true
    set(now)
  end
end

if out > 0 then
  call('HSET', state, 'bound', bound, 'bytes', bytes, 'next', score)
  if retried then call('ZADD', timer, string.format('%.3f', retried / 1000), key) end
else
  call('HSET', state, 'bound', bound, 'bytes', bytes)
  if moved then call('ZADD', timer, score, key) end
end
call('PUBLISH', ARGV[2], 'insert')

local id = ARGV[last - 2]
if KEYS[9] then call('SET', KEYS[9], score .. ' ' .. fresh .. ' ' .. id, 'PX', ARGV[7]) end
return { score, fresh, id }
