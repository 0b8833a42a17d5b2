-- One turn of one semaphore: a token acquires, waits on, extends or leaves, and free permits then go to
-- the next live waiters. All verbs are one script because each of them ends with that same step.
--
-- A permit is a member of TIMES and OWNER, as documented, so programs that follow the documents count it.
-- Ours also have their end in LEASES. A member of TIMES without one is a program of others. Its score is
-- the time of its own clock, which may be wrong, so it ends `ttl` after Redis saw it first, or saw that it
-- was refreshed (OTHERS). A program whose clock is ahead removes permits of ours from TIMES: their holders
-- learn that when they renew, and are counted until then. While a program of others holds DOCLOCK it is
-- between its two transactions, and nobody may acquire.
--
-- KEYS  1 times  2 owner  3 counter  4 leases  5 queue  6 waiters  7 limit  8 doclock  9 others
-- ARGV  1 verb  2 limit, unless KEYS[7] has one  3 ttl ms, 0: not known  4 ms a place in the queue lives, then
--   acquire  5 token  6 list to wake ("": do not wait)
--   ask      5 list to wake  6... tokens that wait
--   extend   5 token
--   leave    5 token
-- Returns {result, ms until asking again is worth it (-1 unknown), {list, message ...} to wake}
--   result: the counter of the permit, "" if none; 1 or 0; or {token, counter ...}
local TIMES, OWNER, COUNTER, LEASES, QUEUE, WAITERS, LIMIT, DOCLOCK, OTHERS = unpack(KEYS)
local call, floor = redis.call, math.floor
local AT_ONCE, KEEP_MS, FOREIGN_CHECK_MS = 1000, 86400000, 50
local MOST_LIMIT = 1000000 -- as in options.ts
local LONGEST_PLACE_MS = 60000 -- a place that lives longer is from before the clock was set back
local verb, ttl, lives, token = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local seconds = string.format('%d.%06d', time[1], time[2])

local limit = tonumber(string.match(call('GET', LIMIT) or '', '^[1-9]%d*$') or 0)
if limit < 1 or limit > MOST_LIMIT then limit = tonumber(ARGV[2]) end -- none was set, or not by resize()
local locker = call('GET', DOCLOCK) -- a Lock of ours with the same name is no program between its transactions
local locked = locker and string.sub(locker, 1, 4) ~= 'rw1:'
local waiting, noted = call('ZCARD', QUEUE), call('HLEN', OTHERS)
for _, key in ipairs({ TIMES, OWNER, LEASES }) do call('ZCARD', key) end -- a wrong type fails here, before
call('HLEN', WAITERS) -- anything is written
call('GET', COUNTER)
local all, wakes = 0, {}

local function drop(holder)
  call('ZREM', OWNER, holder)
  if call('ZREM', LEASES, holder) + call('ZREM', TIMES, holder) > 0 then all = all - 1 end
end

-- Members of TIMES that are not ours, with their scores. Among very many holders, only those that are over.
local function othersIn(size)
  if size <= AT_ONCE then return call('ZDIFF', 2, TIMES, LEASES, 'WITHSCORES') end
  local over = call('ZRANGEBYSCORE', TIMES, '-inf', (now - ttl) / 1000, 'WITHSCORES', 'LIMIT', 0, AT_ONCE)
  local others = {}
  for i = 1, #over, 2 do
    if not call('ZSCORE', LEASES, over[i]) then
      others[#others + 1] = over[i]
      others[#others + 1] = over[i + 1]
    end
  end
  return others
end

-- Ends what is over. What does not fit into one round is ended by the next call.
for _, holder in ipairs(call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, AT_ONCE)) do drop(holder) end
local size, ours = call('ZCARD', TIMES), call('ZCARD', LEASES)
all = size + (ours <= AT_ONCE and #call('ZDIFF', 2, LEASES, TIMES) or 0)
local others, notes, changed = othersIn(size), {}, false
for i = 1, #others, 2 do
  local holder, score = others[i], others[i + 1]
  local seen, ends = string.match(call('HGET', OTHERS, holder) or '', '^(%S+) (%d+)$')
  if seen ~= score and ttl > 0 then seen, ends, changed = score, string.format('%.0f', now + ttl), true end
  if seen == score and tonumber(ends) <= now then
    drop(holder)
  elseif seen then
    notes[#notes + 1] = holder
    notes[#notes + 1] = seen .. ' ' .. ends
  end
end
if changed or #notes ~= 2 * noted then
  -- A write that frees memory, so that those after it work without any. An acquire may be refused.
  if verb ~= 'acquire' or not changed then call('DEL', OTHERS) end
  if #notes > 0 then
    call('HSET', OTHERS, unpack(notes))
    call('PEXPIRE', OTHERS, KEEP_MS)
  end
end

local function holds(holder)
  return call('ZSCORE', LEASES, holder) and call('ZSCORE', TIMES, holder)
end

-- PEXPIRE comes first: without memory Redis refuses ZADD only as the first write. Only extend shortens the
-- time: an acquire or ask may arrive late, when its holder has been given more.
local function prolong(holder, ms)
  local known = verb ~= 'extend' and tonumber(call('ZSCORE', LEASES, holder)) or 0
  call('PEXPIRE', LEASES, KEEP_MS)
  call('ZADD', LEASES, math.max(known, now + ms), holder)
  call('ZADD', TIMES, seconds, holder)
  return call('ZSCORE', OWNER, holder) or '1'
end

local function take(taker, ms)
  local turn = call('INCR', COUNTER)
  call('ZADD', OWNER, turn, taker)
  prolong(taker, ms)
  all = all + 1
  return tostring(turn)
end

local function place(waiter, list)
  if not call('ZSCORE', QUEUE, waiter) then
    call('ZADD', QUEUE, (call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2] or 0) + 1, waiter)
  end
  call('HSET', WAITERS, waiter, string.format('%.0f %s', now + lives, list))
  call('PEXPIRE', QUEUE, lives * 4)
  call('PEXPIRE', WAITERS, lives * 4)
end

local function grant()
  for _ = 1, AT_ONCE do
    if locked or all >= limit or #wakes >= 200 then return end
    local head = call('ZRANGE', QUEUE, 0, 0)[1]
    if not head then return end
    local ends, list = string.match(call('HGET', WAITERS, head) or '', '^(%d+) (.*)$')
    call('ZREM', QUEUE, head)
    call('HDEL', WAITERS, head)
    local left = tonumber(ends or 0) - now
    if left > 0 and left <= LONGEST_PLACE_MS then
      wakes[#wakes + 1] = list
      wakes[#wakes + 1] = head .. ' ' .. take(head, left)
    end
  end
end

local function reply(result)
  local retry = -1
  if locked or all > call('ZCARD', LEASES) then
    retry = FOREIGN_CHECK_MS
  else
    local first = call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]
    if first then retry = math.max(1, first - now + 1) end
  end
  return { result, retry, wakes }
end

if verb == 'acquire' then
  if waiting > 0 and not holds(token) then grant() end
  if holds(token) then return reply(prolong(token, ttl)) end -- the first reply was lost, and it held one or was next
  if not locked and all < limit and call('ZCARD', QUEUE) == 0 then return reply(take(token, ttl)) end
  if ARGV[6] ~= '' then place(token, ARGV[6]) end
  return reply('')
end

if verb == 'ask' then
  local granted = {}
  call('PEXPIRE', QUEUE, lives * 4)
  for i = 6, #ARGV do
    if holds(ARGV[i]) then -- the wake-up was lost
      granted[#granted + 1] = ARGV[i]
      granted[#granted + 1] = prolong(ARGV[i], lives)
    else
      place(ARGV[i], ARGV[5])
    end
  end
  grant()
  return reply(granted)
end

if verb == 'extend' then
  if not holds(token) then
    drop(token)
    grant()
    return reply(0)
  end
  prolong(token, ttl)
  return reply(1)
end

local held = holds(token) and 1 or 0
drop(token)
call('ZREM', QUEUE, token)
call('HDEL', WAITERS, token)
if waiting > 0 then grant() end
-- The counter may not end before the permits it has numbered: a program of others would be admitted first.
if not locked and call('EXISTS', TIMES, OWNER) == 0 then call('DEL', COUNTER) end
return reply(held)
