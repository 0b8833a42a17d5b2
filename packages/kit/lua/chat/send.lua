-- Appends one message to a room: the next id, the message and the notice to live feeds in one step.
--
-- A program that follows the documents takes LOCK, increments, then adds, in separate commands. While it
-- holds LOCK nothing may be sent, or a reader's cursor would pass over its message.
--
-- Users that must get the message and are no members become members right before it.
--
-- KEYS  1 lock  2 ids  3 msgs  4 members  5 live  6 sends  7 joined  8... seen of each such user
-- ARGV  1 sender as JSON  2 message as JSON  3 our token, if we hold LOCK, or ""  4 most messages
--       5 ms a message is kept, 0: no end  6 slot of the sender  7 number of this send
--       8 room  9... users, as many as KEYS from 8 on
-- Returns id, 0 if LOCK is held by somebody else, or -1 if there is no such room
local LOCK, IDS, MSGS, MEMBERS, LIVE, SENDS, JOINED = unpack(KEYS, 1, 7)
local call = redis.call
local JOINED_MS = 86400000 -- as in join.lua
local AT_ONCE, LIVE_LENGTH, MANY_SLOTS, KEEP_MS, MOST_BYTES = 100, 100, 1000, 600000, 1048576
local keep, age = tonumber(ARGV[4]), tonumber(ARGV[5])
local known, sent = string.match(call('HGET', SENDS, ARGV[6]) or '', '^(%d+) (%d+)')
-- The first reply was lost, or this is an early run of a send that is over: numbers of a slot only rise.
if known and tonumber(known) >= tonumber(ARGV[7]) then return tonumber(sent) end
local holder = call('GET', LOCK)
if holder and holder ~= ARGV[3] then return 0 end
if call('ZCARD', MEMBERS) == 0 then return -1 end
call('ZCARD', MSGS)
call('XLEN', LIVE)
for i = 7, #KEYS do call('ZCARD', KEYS[i]) end -- a wrong type fails here, before anything is written

local time = call('TIME')
local id = call('INCR', IDS)
local seconds = string.format('%d.%06d', time[1], time[2])
local message = string.format('{"id": %.0f, "ts": %s, "sender": %s, "message": ', id, seconds, ARGV[1]) .. ARGV[2] .. '}'
call('ZADD', MSGS, id, message)
for i = 8, #KEYS do
  local user = ARGV[i + 1]
  if not call('ZSCORE', MEMBERS, user) then
    call('ZADD', MEMBERS, id - 1, user)
    call('ZADD', KEYS[i], id - 1, ARGV[8])
    call('ZADD', JOINED, id - 1, user)
    call('PEXPIRE', JOINED, JOINED_MS)
  end
end
call('XADD', LIVE, 'MAXLEN', LIVE_LENGTH, '*', 'message', id)
call('PEXPIRE', LIVE, KEEP_MS) -- a documented program that leaves last does not remove it
if call('HLEN', SENDS) >= MANY_SLOTS then -- look for some of processes that ended
  local some = call('HRANDFIELD', SENDS, 10, 'WITHVALUES')
  for i = 1, #some, 2 do
    local used = tonumber(string.match(some[i + 1], ' (%d+)$') or 0)
    if used + KEEP_MS / 1000 < tonumber(time[1]) then call('HDEL', SENDS, some[i]) end
  end
end
call('HSET', SENDS, ARGV[6], string.format('%s %.0f %s', ARGV[7], id, time[1]))
call('PEXPIRE', SENDS, KEEP_MS)

-- Retention: a few old messages per new one, but more bytes than it adds, so that no call has much to do.
local surplus, bytes = call('ZCARD', MSGS) - keep, 0
local oldest = age > 0 and time[1] - age / 1000
for _ = 1, (surplus > 0 or oldest) and AT_ONCE or 0 do
  local first = call('ZRANGE', MSGS, 0, 0)[1]
  local ts = oldest and first and tonumber(string.match(first, '"ts": ?([%d.]+)'))
  if not first or bytes > MOST_BYTES + #message or not (surplus > 0 or ts and ts < oldest) then break end
  call('ZREMRANGEBYRANK', MSGS, 0, 0)
  surplus, bytes = surplus - 1, bytes + #first
end
if age > 0 then call('PEXPIRE', MSGS, age) else call('PERSIST', MSGS) end
return id
