-- One turn of one lock: a token acquires, waits on, extends or leaves, and whatever is free then goes
-- to the next live waiters. All verbs are one script because each of them ends with that same step.
--
--   LOCK free ----------- acquire, or granted -----------> a token, or rw1:readers while readers hold it
--        ^---- released, or expired with nobody waiting ---'
--
-- Any other value of LOCK is the token of a program that follows the documented SET NX lock.
-- Writes come after all checks. Leaving begins with a DEL or ZREM: Redis without memory refuses only the
-- first write of a script, so a release also works then.
--
-- KEYS  1 lock  2 fence  3 queue  4 waiters  5 readers  6 entries
-- ARGV  1 verb, then
--   acquire  2 token  3 "w" or "r"  4 ttl ms, 0: no end  5 list to wake ("": do not wait)
--            6 ms a place in the queue lives  7 "1": never overtake a waiter
--   ask      2 ms a place lives  3 list to wake  4 "w" or "r"  5... tokens that wait
--   enter    2 token  3 entry id  4 ttl ms             a further entry of the holder. That of a reader is one more
--            reader, whose token is the entry id
--   extend   2 token  3 ttl ms, 0: no end
--   leave    2 token  3 entry id, "0": the first one  4 "1": hand over, "0": free it and wake the next
--            5 list of the caller: its own waiters live, and get the whole time they asked for
--   break    2 token of the holder, or ""                frees the lock and hands over
-- Returns {result, ms the holder has left (-1 no end, -2 free, or the caller need not ask again), "1" if
--          that is a program of others, {list, message ...} to wake}; result is a fence ("" none), 1 or 0, or {token, fence ...}
--          message  token, and if it holds the lock now its fence, and if it has its whole time that time
-- WAITERS  token -> "ends, mode and ttl ms (none: no end), list": `1700000000000 w30000 kit-wake:a`
local LOCK, FENCE, QUEUE, WAITERS, READERS, ENTRIES = unpack(KEYS)
local call, floor = redis.call, math.floor
local SHARED, KEEP_FENCE_MS, MOST_STEPS, MOST_GRANTS = 'rw1:readers', 86400000, 1000, 100
local LONGEST_PLACE_MS = 60000 -- a place that lives longer is from before the clock was set back
local verb, token = ARGV[1], ARGV[2]

local value = call('GET', LOCK)

-- Most locks are free when asked for and have no waiters when released: three commands for the release,
-- two for the question whether an acquire is of that kind.
if verb == 'leave' and value == token and ARGV[3] == '0' and call('EXISTS', QUEUE, ENTRIES) == 0 then
  call('DEL', LOCK)
  return { 1, -2, '0', {} }
end
local quiet = verb == 'acquire' and not value and call('EXISTS', QUEUE, READERS, ENTRIES) == 0

local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = floor(micros / 1000)
local text = function(number) return string.format('%.0f', number) end

local lastFence = tonumber(string.match(call('GET', FENCE) or '', '^%d+$') or 0)
if lastFence >= 2 ^ 53 then lastFence = 0 end -- no fence of ours: adding one would not change it
local waiting = quiet and 0 or call('ZCARD', QUEUE)
if not quiet then -- a wrong type fails here, before anything is written
  call('HLEN', WAITERS)
  call('ZCARD', READERS)
  call('SCARD', ENTRIES)
end
if value == SHARED and call('ZCOUNT', READERS, '(' .. now, '+inf') == 0 then value = false end
local wakes = {}

-- Rises for ever: by the clock while that runs, by one if it was set back. The key outlives its value
-- by the same clock, so it can only expire when the clock alone gives more.
local function newFence()
  lastFence = math.max(micros, lastFence + 1)
  call('SET', FENCE, text(lastFence), 'PXAT', text(floor(lastFence / 1000) + KEEP_FENCE_MS))
  return text(lastFence)
end

local function fits(mode)
  return not value or (mode == 'r' and value == SHARED)
end

local function reads(reader)
  return value == SHARED and tonumber(call('ZSCORE', READERS, reader) or 0) > now
end

local function holds(holder)
  return value == holder or reads(holder)
end

-- The marker lives as long as the reader that stays longest.
local function keepShared()
  local longest = call('ZRANGE', READERS, -1, -1, 'WITHSCORES')[2]
  call('SET', LOCK, SHARED, 'PXAT', longest)
  call('PEXPIREAT', READERS, longest)
end

-- More time for somebody who holds it. Begins with PEXPIRE, which is allowed without memory. Every entry of
-- a holder counts on the time that it asked for, so one entry does not shorten the time of the others. Only
-- extend shortens it at all: an acquire or ask may arrive late, when its holder has been given more time.
local function prolong(holder, ttl)
  local ends = now + ttl
  if value == SHARED then
    if verb ~= 'extend' then ends = math.max(ends, tonumber(call('ZSCORE', READERS, holder))) end
  elseif verb ~= 'extend' or call('EXISTS', ENTRIES) == 1 then
    local left = call('PTTL', LOCK)
    ttl = (left == -1 or ttl == 0) and 0 or math.max(ttl, left)
  end
  if value == SHARED then
    call('PEXPIRE', READERS, ttl)
    call('ZADD', READERS, ends, holder)
    keepShared()
  elseif ttl > 0 then
    call('PEXPIRE', LOCK, ttl)
    call('PEXPIRE', ENTRIES, ttl)
  else
    call('PERSIST', LOCK)
    call('PERSIST', ENTRIES)
  end
end

local function take(taker, mode, ttl)
  if mode == 'r' then
    call('ZADD', READERS, now + ttl, taker)
    call('ZREMRANGEBYSCORE', READERS, '-inf', now)
    value = SHARED
    keepShared()
  else
    if ttl > 0 then call('SET', LOCK, taker, 'PX', ttl) else call('SET', LOCK, taker) end
    value = taker
    if not quiet then call('DEL', READERS) end
  end
  if not quiet then call('DEL', ENTRIES) end
  return newFence()
end

local function forget(waiter)
  call('ZREM', QUEUE, waiter)
  call('HDEL', WAITERS, waiter)
end

-- Gives the lock to the first live waiters: one writer, or readers up to the next writer. If `open`, the
-- first is only woken, and the lock is free to whoever asks first.
local function grant(open)
  for _ = 1, MOST_STEPS do
    if #wakes >= 2 * MOST_GRANTS then return end
    local head = call('ZRANGE', QUEUE, 0, 0)[1]
    if not head then return end
    local ends, mode, ttl, list = string.match(call('HGET', WAITERS, head) or '', '^(%d+) (%a)(%d*) (.*)$')
    local left = tonumber(ends or 0) - now
    if left <= 0 or left > LONGEST_PLACE_MS then
      forget(head)
    else
      if not fits(mode) then return end
      wakes[#wakes + 1] = list
      if open then
        wakes[#wakes + 1] = head
        return
      end
      forget(head)
      -- Another process may have died since it renewed the place, so it gets no more than the time of that.
      local lives = verb == 'leave' and list == ARGV[5] and ttl ~= ''
      local fence = take(head, mode, lives and tonumber(ttl) or left)
      wakes[#wakes + 1] = head .. ' ' .. fence .. (lives and ' ' .. ttl or '')
      if mode == 'w' then return end
    end
  end
end

-- `settled`: the caller has what it wants and will not ask how long to wait.
local function reply(result, settled)
  local left = (not value or settled) and -2 or call('PTTL', LOCK)
  local foreign = value and string.sub(value, 1, 4) ~= 'rw1:'
  return { result, left, foreign and '1' or '0', wakes }
end

if verb == 'acquire' then
  local mode, ttl, list, lives, fair = ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
  if waiting > 0 and fair and not holds(token) then grant(false) end
  if holds(token) then -- the first reply was lost, and the token held it or was next
    prolong(token, ttl)
    return reply(newFence(), true)
  end
  if fits(mode) and (not fair or quiet or call('ZCARD', QUEUE) == 0) then
    local fence = take(token, mode, ttl)
    if waiting > 0 then forget(token) end -- of a first run whose reply was lost
    return reply(fence, true)
  end
  if list ~= '' then
    local last = call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2]
    call('ZADD', QUEUE, 'NX', (last or 0) + 1, token)
    call('HSET', WAITERS, token, text(now + lives) .. ' ' .. mode .. (ttl > 0 and ARGV[4] or '') .. ' ' .. list)
    call('PEXPIRE', QUEUE, lives * 4)
    call('PEXPIRE', WAITERS, lives * 4)
  end
  return reply('')
end

if verb == 'ask' then
  local lives, list, mode = tonumber(ARGV[2]), ARGV[3], ARGV[4]
  local known, granted = call('HMGET', WAITERS, unpack(ARGV, 5)), {}
  call('PEXPIRE', QUEUE, lives * 4) -- first, so that places are renewed without memory as well
  call('PEXPIRE', WAITERS, lives * 4)
  for i = 5, #ARGV do
    local waiter = ARGV[i]
    if holds(waiter) then -- the wake-up was lost
      prolong(waiter, lives)
      granted[#granted + 1] = waiter
      granted[#granted + 1] = newFence()
    else
      if not call('ZSCORE', QUEUE, waiter) then
        call('ZADD', QUEUE, (call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2] or 0) + 1, waiter)
      end
      local ttl = string.match(known[i - 4] or '', '^%d+ %a(%d*) ') or ''
      call('HSET', WAITERS, waiter, text(now + lives) .. ' ' .. mode .. ttl .. ' ' .. list)
    end
  end
  grant(false)
  return reply(granted)
end

if verb == 'enter' then
  if ARGV[4] and reads(token) then return reply({ ARGV[3], take(ARGV[3], 'r', tonumber(ARGV[4])) }, true) end
  if value ~= token or value == SHARED then return reply(0) end
  if call('EXISTS', ENTRIES) == 0 then call('SADD', ENTRIES, '0') end -- the first one may be released since
  call('SADD', ENTRIES, ARGV[3])
  local left = call('PTTL', LOCK)
  if left > 0 then call('PEXPIRE', ENTRIES, left) end
  if lastFence == 0 then newFence() end -- held for longer than its fence is kept
  return reply(text(lastFence))
end

if verb == 'extend' then
  if not holds(token) then return reply(0) end
  prolong(token, tonumber(ARGV[3]))
  return reply(1, true)
end

local left = 0
if verb == 'break' then
  if not value or (token ~= '' and value ~= token) then return reply(0) end
  left = 1
  call('DEL', LOCK, READERS, ENTRIES)
  value = false
elseif value == token then
  -- An entry that was never made, or is released already, does not release the others.
  if ARGV[3] ~= '0' and call('SISMEMBER', ENTRIES, ARGV[3]) == 0 then return reply(1) end
  call('SREM', ENTRIES, ARGV[3])
  if call('SCARD', ENTRIES) > 0 then return reply(1) end
  call('DEL', LOCK, ENTRIES)
  value, left = false, 1
elseif ARGV[3] ~= '0' then -- an entry of a writer that has lost the lock, or of a token that never wrote
  return reply(0)
elseif call('ZREM', READERS, token) == 1 then
  left = value == SHARED and 1 or 0
  call('ZREMRANGEBYSCORE', READERS, '-inf', now) -- readers that died do not hold the others
  if call('ZCARD', READERS) == 0 then
    if value == SHARED then call('DEL', LOCK) end
    value = value ~= SHARED and value or false
  elseif value == SHARED then
    keepShared()
  end
elseif call('ZREM', QUEUE, token) == 1 then
  call('HDEL', WAITERS, token)
end
if waiting > 0 then grant(ARGV[4] == '0') end
return reply(left)
