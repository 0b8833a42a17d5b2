-- Adds a member to a room, at its end or before its oldest message. A member stays where it is.
--
-- KEYS  1 members  2 ids  3 msgs  4 seen of the user  5 joined
-- ARGV  1 room  2 user  3 "1": with history
-- Returns the member's cursor, or -1 if there is no such room
local MEMBERS, IDS, MSGS, SEEN, JOINED = unpack(KEYS)
local call = redis.call
local KEEP_MS = 86400000 -- a documented program that leaves last does not remove JOINED
if call('ZCARD', MEMBERS) == 0 then return -1 end
local known = call('ZSCORE', MEMBERS, ARGV[2])
local cursor = known or call('GET', IDS) or '0'
if not known and ARGV[3] == '1' then
  local oldest = call('ZRANGE', MSGS, 0, 0, 'WITHSCORES')[2]
  if oldest then cursor = oldest - 1 end
end
call('ZCARD', SEEN)
call('ZCARD', JOINED) -- a wrong type fails here, before anything is written
call('ZADD', MEMBERS, 'GT', cursor, ARGV[2])
call('ZADD', SEEN, 'GT', cursor, ARGV[1])
if not known and tonumber(cursor) > 0 then
  call('ZADD', JOINED, cursor, ARGV[2])
  call('PEXPIRE', JOINED, KEEP_MS)
end
return tonumber(cursor)
