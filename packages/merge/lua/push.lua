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
local key, channel = ARGV[1], ARGV[2]
local maxItems, maxBytes, maxWaitMs = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local words = tonumber(ARGV[8])

if KEYS[9] then
  local seen = redis.call('GET', KEYS[9])
  if seen then
    local score, fresh, id = string.match(seen, '^(%S+) (%S+) (%S+)$')
    return { score, tonumber(fresh), id }
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local bodies, heads = {}, {}
for i = 9 + words, #ARGV, 5 do
  bodies[#bodies + 1] = ARGV[i + 4]
  heads[#heads + 1] = ARGV[i + 2] .. ' ' .. string.format('%d', now) .. ARGV[i + 3]
end
local count = #bodies
local length = redis.call('RPUSH', queue, unpack(bodies))
local headed = redis.call('RPUSH', items, unpack(heads))
if headed < length then -- a program of the seed pushed before us, without heads
  redis.call('LTRIM', items, 0, -1 - count)
  for i = 1, length - headed do
    redis.call('RPUSH', items, string.format('x%d-%d %d -', now, i, now))
  end
  redis.call('RPUSH', items, unpack(heads))
elseif headed > length then -- and one of the seed trimmed the list without the heads
  redis.call('LTRIM', items, headed - length, -1)
end
if words > 0 then redis.call('HSET', KEYS[7], unpack(ARGV, 9, 8 + words)) end
if ARGV[6] == '1' then redis.call('ZADD', KEYS[8], 0, key) end

local before = length - count
local known = redis.call('HMGET', state, 'batch', 'next', 'bound', 'bytes')
local out = math.min(tonumber(known[1] or 0), before)
if known[1] and out < tonumber(known[1]) then -- the batch was completed by a program of the seed
  redis.call('HDEL', state, 'batch', 'delivery', 'attempts', 'next', 'error')
end
local fresh, bound, bytes = before - out, tonumber(known[3] or 0), tonumber(known[4] or 0)
local locked = out > 0 and redis.call('EXISTS', locker) == 1
local marked = not locked and redis.call('DEL', overwrite) == 1

local due -- when the fresh items fire
if fresh > 0 then
  due = tonumber(out > 0 and known[2] or redis.call('ZSCORE', timer, key) or nil)
  if due then due = math.floor(due * 1000 + 0.5) end
end
local held, moved, retried = due, false, nil
for i = 9 + words, #ARGV, 5 do
  local at, always = math.floor(tonumber(ARGV[i]) * 1000 + 0.5), ARGV[i + 1] == 'always'
  if at <= 0 then at = now end
  if fresh == 0 then -- the first of a new batch: from here on maxWaitMs runs
    bound, bytes, due, moved = math.max(at, now + maxWaitMs), 0, at, true
  elseif always or marked or not due then
    due, moved = (bound > 0 and math.min(at, bound) or at), true
  end
  if out > 0 and not locked and (always or marked) then retried = at end
  marked = false
  fresh, bytes = fresh + 1, bytes + #ARGV[i + 4]
  if (fresh >= maxItems or bytes >= maxBytes) and due > now then due, moved = now, true end
end

local function score(ms) return string.format('%.3f', ms / 1000) end
if out > 0 then
  redis.call('HSET', state, 'bound', bound, 'bytes', bytes, 'next', score(due))
  if retried then redis.call('ZADD', timer, score(retried), key) end
else
  redis.call('HSET', state, 'bound', bound, 'bytes', bytes)
  if moved and due ~= held then redis.call('ZADD', timer, score(due), key) end
end
redis.call('PUBLISH', channel, 'insert')

local id = ARGV[#ARGV - 2]
if KEYS[9] then
  redis.call('SET', KEYS[9], score(due) .. ' ' .. fresh .. ' ' .. id, 'PX', ARGV[7])
end
return { score(due), fresh, id }
