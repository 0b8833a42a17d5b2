-- Appends items to one key and decides when it fires.
--
-- A key has up to three groups of items, in the order in which they leave:
--
--   batch      state.batch items at the head of the queue: being delivered, or waiting for a retry
--   replayed   state.replayed items in lists of their own: they leave as soon as no batch is out
--   fresh      the rest of the queue: they fire at the time that pushes give them
--
-- The timer holds the time of the first group. While that is not the fresh one, the time of the fresh
-- items is state.next. So a push never moves a retry.
--
-- KEYS  1 timer  2 queue  3 items  4 locker  5 overwrite  6 state  7 data  8 singles
--       9 idempotency record  10 deleted (both only with one item); 7 to 10 only if they are needed
--       for the run of a schedule instead: 9 schedule  10 schedules
-- ARGV  1 key  2 channel  3 maxItems  4 maxBytes  5 maxWaitMs  6 "1": a single, delivered item by item; "2": one
--       that is stored even if Redis has no memory left
--       7 ms to remember the idempotency key  8 digest of the request  9 "" or how to deliver (JSON)
--       for the run of a schedule instead: 7 "run"  8 "DUE NEXT REVISION ID": when it was due, when it is
--       due next ("inf": never again), the revision that the caller read, its id
--       10 maximum of data fields  11 number of data words, then these words: field, value ...
--       then five words per item: time (seconds, "0" now), always|once, id, rest of its head, body
-- Returns {score in force, fresh items, id of the last item} | {"mismatch"} the idempotency key was used
--       with another request | {"full"} too many data fields | {"ran"} the run was pushed before, or the
--       schedule was changed
local timer, queue, items, locker, overwrite, state = unpack(KEYS, 1, 6)
local call, floor, key, words = redis.call, math.floor, ARGV[1], tonumber(ARGV[11])
local begin, last = 12 + words, #ARGV
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)

local isRun = ARGV[7] == 'run'
local runDue, runNext, revision, schedule
if isRun then -- the first caller moves the schedule on; the others find another time there
  runDue, runNext, revision, schedule = string.match(ARGV[8], '^(%S+) (%S+) (%S+) (.+)$')
  local planned = call('ZSCORE', KEYS[10], schedule)
  if not planned or tonumber(planned) ~= tonumber(runDue) or call('HGET', KEYS[9], 'revision') ~= revision then
    return { 'ran' }
  end
elseif KEYS[9] then
  local seen = call('GET', KEYS[9])
  if seen then
    local score, fresh, id, digest, at = string.match(seen, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
    local deleted = call('GET', KEYS[10])
    if not deleted or tonumber(at) > tonumber(deleted) then
      if digest ~= ARGV[8] then return { 'mismatch' } end
      return { score, tonumber(fresh), id }
    end
  end
end

-- Reads come first: a key of a wrong type fails here, and nothing has changed.
local known = call('HMGET', state, 'batch', 'next', 'bound', 'bytes', 'replayed', 'ghost')
local current = call('ZSCORE', timer, key)
if words > 0 and call('HLEN', KEYS[7]) + words / 2 > tonumber(ARGV[10]) then return { 'full' } end
if ARGV[6] ~= '0' then call('ZCARD', KEYS[8]) end

if ARGV[6] == '2' then call('HDEL', state, '') end -- opens the way as in get.lua

-- Heads and bodies; a single item, the usual case, needs no tables.
local at = ' ' .. string.format('%d', now) .. ' '
local count, length, headed, bodies, heads = 1
if last == begin + 4 then
  headed = call('RPUSH', items, ARGV[begin + 2] .. at .. #ARGV[last] .. ARGV[begin + 3])
  length = redis.pcall('RPUSH', queue, ARGV[last])
else
  bodies, heads = {}, {}
  for i = begin, last, 5 do
    bodies[#bodies + 1] = ARGV[i + 4]
    heads[#heads + 1] = ARGV[i + 2] .. at .. #ARGV[i + 4] .. ARGV[i + 3]
  end
  count = #bodies
  headed = call('RPUSH', items, unpack(heads))
  length = redis.pcall('RPUSH', queue, unpack(bodies))
end
if type(length) == 'table' then
  call('LTRIM', items, 0, -1 - count)
  return length
end
if headed < length then -- another program pushed before us, without heads
  heads = heads or { ARGV[begin + 2] .. at .. #ARGV[last] .. ARGV[begin + 3] }
  call('LTRIM', items, 0, -1 - count)
  -- Behind very many of them our items go without heads too, and get.lua makes them up.
  if length - headed <= 1000 then
    for i = 1, length - headed do call('RPUSH', items, 'x:' .. i .. '-' .. ARGV[begin + 2] .. at .. '- -') end
    call('RPUSH', items, unpack(heads))
  end
  call('HSET', state, 'unsized', '1')
elseif headed > length then -- another program trimmed the list without the heads
  call('LTRIM', items, headed - length, -1)
end
if words > 0 then call('HSET', KEYS[7], unpack(ARGV, 12, 11 + words)) end
if ARGV[6] ~= '0' then call('ZADD', KEYS[8], 0, key) end
if ARGV[9] ~= '' then call('HSET', state, 'request', ARGV[9]) end

local before = length - count
local out = 0
if known[1] then
  out = tonumber(known[1])
  if out > before then -- the batch was completed by another program
    out = before
    call('HDEL', state, 'batch', 'delivery', 'attempts', 'next', 'error')
  end
end
local ghost = false
if known[6] then -- all was deleted during a delivery, whose holder has the lock still (remove.lua)
  call('PERSIST', state)
  ghost = call('EXISTS', locker) == 1
  if not ghost then call('HDEL', state, 'ghost') end
end
local behind = out > 0 or ghost or (known[5] and tonumber(known[5]) > 0)
local fresh, bound, bytes = before - out, tonumber(known[3] or 0), tonumber(known[4] or 0)
local marked = not behind and call('DEL', overwrite) == 1

-- When the fresh items fire: as a string for Redis, and in ms for comparisons.
local score, due
if fresh > 0 then
  score = current
  if behind then score = known[2] end
  due = score and floor(score * 1000 + 0.5)
end
local function set(ms, given)
  due = ms
  score = given or string.format('%.3f', ms / 1000)
end
local moved, began = false, not known[3]
local maxItems, maxBytes, maxWaitMs = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
for i = begin, last, 5 do
  local given, always = ARGV[i], ARGV[i + 1] == 'always'
  local wanted = floor(given * 1000 + 0.5)
  if wanted <= 0 then wanted, given = now, nil end
  if fresh == 0 then -- the first of a new batch: from here on maxWaitMs runs
    bound, bytes, moved, began = math.max(wanted, now + maxWaitMs), 0, true, true
    set(wanted, given)
  elseif always or marked or not due then
    local capped = bound > 0 and wanted > bound
    if wanted ~= due or capped then
      moved = true
      set(capped and bound or wanted, not capped and given or nil)
    end
  end
  marked = false
  fresh, bytes = fresh + 1, bytes + #ARGV[i + 4]
  if (fresh >= maxItems or bytes >= maxBytes) and due > now then
    moved = true
    set(now)
  end
end

if behind then
  call('HSET', state, 'bound', bound, 'bytes', bytes, 'next', score)
  if not current then
    call('ZADD', timer, string.format('%.3f', (now + math.max(0, call('PTTL', locker))) / 1000), key)
  end
else
  if began then call('HSET', state, 'bound', bound, 'bytes', bytes) else call('HSET', state, 'bytes', bytes) end
  if moved then call('ZADD', timer, score, key) end
end
redis.pcall('PUBLISH', ARGV[2], 'insert') -- a user without channels must not fail behind the writes

local id = ARGV[last - 2]
if isRun then
  call('ZADD', KEYS[10], runNext, schedule)
  call('HINCRBY', KEYS[9], 'runs', 1)
  call('HSET', KEYS[9], 'last', runDue)
  call('HDEL', KEYS[9], 'error')
  if runNext == 'inf' then call('HSET', KEYS[9], 'state', 'ended') end
elseif KEYS[9] then
  local micros = string.format('%d%06d', time[1], time[2])
  call('HSET', state, 'idempotent', '1')
  call('SET', KEYS[9], table.concat({ score, fresh, id, ARGV[8], micros }, ' '), 'PX', ARGV[7])
end
return { score, fresh, id }
