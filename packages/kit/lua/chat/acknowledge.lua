-- Moves a member's cursor forward, in both places that the documents keep it, and removes what all
-- members have read. The first write frees memory, so that it works when Redis has none left.
--
-- KEYS  1 members  2 ids  3 msgs  4 seen of the user
-- ARGV  1 room  2 user  3 id of the last message that was dealt with  4 "1": keep what all have read
--       5 ms when that message was sent, or "": nothing changes if the id is that of another message by now
-- Returns {the cursor, or -1 if the user is no member, 1 if there is more to remove}
local MEMBERS, IDS, MSGS, SEEN = unpack(KEYS)
local call = redis.call
local known = call('ZSCORE', MEMBERS, ARGV[2])
if not known then return { -1, 0 } end
call('ZCARD', SEEN)
if ARGV[5] ~= '' then
  local message = call('ZRANGEBYSCORE', MSGS, ARGV[3], ARGV[3], 'LIMIT', 0, 1)[1]
  local ts = message and tonumber(string.match(message, '"ts": ?([%d.]+)'))
  if ts and math.abs(ts * 1000 - ARGV[5]) > 1 then return { tonumber(known), 0 } end
end
local last = tonumber(call('GET', IDS) or 0)
local cursor = math.max(tonumber(known), math.min(tonumber(ARGV[3]), last))
call('ZREMRANGEBYSCORE', MSGS, '-inf', 0)
call('ZADD', MEMBERS, 'GT', cursor, ARGV[2])
call('ZADD', SEEN, 'GT', cursor, ARGV[1])
return { cursor, ARGV[4] ~= '1' and trimRead(MEMBERS, MSGS) or 0 }
