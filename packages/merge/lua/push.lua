-- Appends items to a key, or one item to each of several keys, and decides when they fire.
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
-- Several plain pushes can be sent in one call. They are stored in their order, and a push that fails does not
-- keep the others from being stored: its caller sends it again alone and gets the error. Work that one command can
-- do for all of them is done once: reading the timer, looking for markers, writing the timer.
--
-- KEYS  1 timer, then per push: 2 queue  3 items  4 locker  5 overwrite  6 state
--       after a single push, if it needs them: 7 data  8 singles  9 idempotency record  10 deleted (both
--       only with one item); for the run of a schedule instead: 9 schedule  10 schedules
-- ARGV  1 number of pushes  2 channel  3 maxItems  4 maxBytes  5 maxWaitMs
--       for several pushes: 6 the length of the queue's name in front of its key, then four words per push
--       for one push:
--       6 "0"; "1": a single, delivered item by item; "2": one that is stored even if Redis is out of memory
--       7 ms to remember the idempotency key  8 digest of the request  9 "" or how to deliver (JSON)
--       for the run of a schedule instead: 7 "run"  8 "DUE NEXT REVISION ID": when it was due, when it is
--       due next ("inf": never again), the revision that the caller read, its id
--       10 maximum of data fields  11 number of data words, then these words: field, value ...
--       then its key and four words per item
--       words of an item: time (seconds, "0" now), id, "a" (always) or "o" (once) and the rest of its head, body
-- Returns for one push {score in force, fresh items, id of the last item} | {"mismatch"} the idempotency key
--       was used with another request | {"full"} too many data fields | {"ran"} the run was pushed before,
--       or the schedule was changed
--       for several {score in force, fresh items, score, fresh items ...}; instead of these two
--       "", 0 if nothing of a push was stored, and an error, -1 if it failed after its writes
local call, floor, format = redis.call, math.floor, string.format
local byte, sub = string.byte, string.sub
local timer, pushes = KEYS[1], tonumber(ARGV[1])
local maxItems, maxBytes, maxWaitMs = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local single, request, words = '0', '', 0
if pushes == 1 then single, request, words = ARGV[6], ARGV[9], tonumber(ARGV[11]) end
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local at = ' ' .. format('%d', now) .. ' '

local function stamp(ms) return format('%.3f', ms / 1000) end

-- A field of the state; 0 if it is missing, or if another program wrote a value that is not a number.
local function number(text) return text and tonumber(text) or 0 end

-- The head of the item whose words begin at ARGV[i].
local function headOf(i) return ARGV[i + 1] .. at .. #ARGV[i + 3] .. sub(ARGV[i + 2], 2) end

local written -- whether the current push has changed its queue
-- Read once for several pushes: the scores of their keys, and whether any key has a marker.
local scores, markers = nil, true
local moves, movers = {}, {} -- scores and keys for the timer; the pushes they belong to

-- Stores the push of a key, whose own keys begin at KEYS[k] and whose words are ARGV[begin] to ARGV[last].
-- Returns the score in force, the number of fresh items and whether the timer is to be written; or a table
-- that says why nothing was stored.
local function push(key, k, begin, last)
  local queue, items, locker, overwrite, state = KEYS[k], KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]

  -- Reads come first: a key of a wrong type fails here, and nothing has changed.
  local known = call('HMGET', state, 'batch', 'next', 'bound', 'bytes', 'replayed', 'ghost')
  local out, bound, bytes = number(known[1]), number(known[3]), number(known[4])
  local current
  if scores then current = scores[key] else current = call('ZSCORE', timer, key) end
  if words > 0 and call('HLEN', KEYS[7]) + words / 2 > tonumber(ARGV[10]) then return { 'full' } end
  if single ~= '0' then call('ZCARD', KEYS[8]) end

  if single == '2' then call('HDEL', state, '') end -- allows the later writes, as in get.lua

  -- Heads and bodies; a single item, the usual case, needs no tables.
  local count, length, headed, bodies, heads = 1
  if last == begin + 3 then
    headed = call('RPUSH', items, headOf(begin))
    length = redis.pcall('RPUSH', queue, ARGV[last])
  else
    bodies, heads = {}, {}
    for i = begin, last, 4 do
      bodies[#bodies + 1] = ARGV[i + 3]
      heads[#heads + 1] = headOf(i)
    end
    count = #bodies
    headed = call('RPUSH', items, unpack(heads))
    length = redis.pcall('RPUSH', queue, unpack(bodies))
  end
  if type(length) == 'table' then
    call('LTRIM', items, 0, -1 - count)
    return length
  end
  written = true
  if headed < length then -- another program pushed before us, without heads
    heads = heads or { headOf(begin) }
    call('LTRIM', items, 0, -1 - count)
    -- If very many of them come before our items, our items have no heads either, and get.lua makes them.
    if length - headed <= 1000 then
      for i = 1, length - headed do call('RPUSH', items, 'x:' .. i .. '-' .. ARGV[begin + 1] .. at .. '- -') end
      call('RPUSH', items, unpack(heads))
    end
    call('HSET', state, 'unsized', '1')
  elseif headed > length then -- another program trimmed the list without the heads
    call('LTRIM', items, headed - length, -1)
    if out > 0 then -- and items of the batch with it: the rest is another batch (get.lua)
      out = math.max(0, out - (headed - length))
      call('HSET', state, 'batch', out)
      call('HDEL', state, 'delivery')
      if out == 0 then call('HDEL', state, 'batch', 'attempts', 'next', 'error') end
    end
  end
  if words > 0 then call('HSET', KEYS[7], unpack(ARGV, 12, 11 + words)) end
  if single ~= '0' then call('ZADD', KEYS[8], 0, key) end
  if request ~= '' then call('HSET', state, 'request', request) end

  local before = length - count
  if out > before then -- the batch was completed by another program
    out = before
    call('HDEL', state, 'batch', 'delivery', 'attempts', 'next', 'error')
  end
  local ghost = false
  if known[6] then -- all was deleted during a delivery, whose holder still has the lock (remove.lua)
    call('PERSIST', state)
    ghost = call('EXISTS', locker) == 1
    if not ghost then call('HDEL', state, 'ghost') end
  end
  local behind = out > 0 or ghost or number(known[5]) > 0
  local fresh = before - out
  local marked = markers and not behind and call('DEL', overwrite) == 1

  -- When the fresh items fire: as a string for Redis, and in ms for comparisons.
  local score, due
  if fresh > 0 then
    score = current
    if behind then score = tonumber(known[2] or nil) and known[2] end
    due = score and floor(score * 1000 + 0.5)
  end
  local moved, began = false, not known[3]
  for i = begin, last, 4 do
    local given, always = ARGV[i], byte(ARGV[i + 2]) == 97
    local wanted = floor(given * 1000 + 0.5)
    if wanted <= 0 then wanted, given = now, nil end
    if fresh == 0 then -- the first of a new batch: maxWaitMs starts here
      bound, bytes, moved, began = math.max(wanted, now + maxWaitMs), 0, true, true
      due, score = wanted, given or stamp(wanted)
    elseif always or marked or not due then
      local capped = bound > 0 and wanted > bound
      if wanted ~= due or capped then
        moved = true
        if capped then due, score = bound, stamp(bound) else due, score = wanted, given or stamp(wanted) end
      end
    end
    marked = false
    fresh, bytes = fresh + 1, bytes + #ARGV[i + 3]
    if (fresh >= maxItems or bytes >= maxBytes) and due > now then
      moved = true
      due, score = now, stamp(now)
    end
  end

  if behind then
    call('HSET', state, 'bound', bound, 'bytes', bytes, 'next', score)
    if not current then
      call('ZADD', timer, stamp(now + math.max(0, call('PTTL', locker))), key)
    end
    moved = false
  else
    if began then call('HSET', state, 'bound', bound, 'bytes', bytes) else call('HSET', state, 'bytes', bytes) end
  end
  return score, fresh, moved
end

if pushes > 1 then
  local from = tonumber(ARGV[6]) + 1
  local names, overwrites = {}, {}
  for i = 1, pushes do names[i], overwrites[i] = sub(KEYS[i * 5 - 3], from), KEYS[i * 5] end
  markers = redis.pcall('EXISTS', unpack(overwrites)) ~= 0
  local found = redis.pcall('ZMSCORE', timer, unpack(names))
  local known = not found.err -- Redis has ZMSCORE since 6.2
  scores = {}
  for i = 1, pushes do scores[names[i]] = known and found[i] or not known and call('ZSCORE', timer, names[i]) end
  local replies, stored = {}, false
  for i = 1, pushes do
    written = false
    local done, score, fresh, moved = pcall(push, names[i], i * 5 - 3, i * 4 + 3, i * 4 + 6)
    if not written then
      score, fresh = '', 0
    elseif not done then
      score, fresh = type(score) == 'table' and score.err or tostring(score), -1
    elseif moved then
      moves[#moves + 1], moves[#moves + 2], movers[#movers + 1] = score, names[i], i
      scores[names[i]] = score
    end
    stored = stored or written
    replies[i * 2 - 1], replies[i * 2] = score, fresh
  end
  local timed = movers[1] and redis.pcall('ZADD', timer, unpack(moves))
  if type(timed) == 'table' then
    for _, i in ipairs(movers) do replies[i * 2 - 1], replies[i * 2] = timed.err, -1 end
  end
  if stored then redis.pcall('PUBLISH', ARGV[2], 'insert') end
  return replies
end

local isRun = ARGV[7] == 'run'
local runDue, runNext, revision, schedule
if isRun then -- the first caller advances the schedule; the others find another time there
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

local first, last = 12 + words, #ARGV
local score, fresh, moved = push(ARGV[first], 2, first + 1, last)
if type(score) == 'table' then return score end
if moved then call('ZADD', timer, score, ARGV[first]) end
redis.pcall('PUBLISH', ARGV[2], 'insert') -- a user without channels must not fail after the writes

local id = ARGV[last - 2]
if isRun then
  call('ZADD', KEYS[10], runNext, schedule)
  call('HINCRBY', KEYS[9], 'runs', 1)
  call('HSET', KEYS[9], 'last', runDue)
  call('HDEL', KEYS[9], 'error')
  if runNext == 'inf' then call('HSET', KEYS[9], 'state', 'ended') end
elseif KEYS[9] then
  local micros = format('%d%06d', time[1], time[2])
  call('HSET', KEYS[6], 'idempotent', '1')
  call('SET', KEYS[9], table.concat({ score, fresh, id, ARGV[8], micros }, ' '), 'PX', ARGV[7])
end
return { score, fresh, id }
