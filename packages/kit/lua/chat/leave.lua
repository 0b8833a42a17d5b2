-- Removes a member; the last one out removes the room. Begins with ZREM, so it works without memory. With the id
-- of a message, a member stays if that message is not the newest one, or if the room was made again.
--
-- KEYS  1 members  2 ids  3 msgs  4 seen of the user  5 live  6 typing  7 present  8 sends  9 joined
-- ARGV  1 room  2 user  3 "1": keep what all have read  4 id of the newest message, or ""  5 ms when it was sent
-- Returns {members that are left, or -1 if the user is no member, or -2 if it stays, 1 if there is more to remove}
local MEMBERS, IDS, MSGS, SEEN = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local call = redis.call
for i, key in ipairs(KEYS) do -- a wrong type fails here, before anything is written
  if i ~= 2 and i ~= 5 and i ~= 8 then call('ZCARD', key) end
end
if ARGV[4] ~= '' and call('ZSCORE', MEMBERS, ARGV[2]) then
  local newest = call('ZRANGE', MSGS, -1, -1, 'WITHSCORES')
  local ts = newest[1] and tonumber(string.match(newest[1], '"ts": ?([%d.]+)'))
  local other = newest[1] and tonumber(newest[2]) ~= tonumber(ARGV[4])
  if other or ts and math.abs(ts * 1000 - ARGV[5]) > 1 then return { -2, 0 } end
end
local was = call('ZREM', MEMBERS, ARGV[2])
call('ZREM', SEEN, ARGV[1])
local left, more = call('ZCARD', MEMBERS), 0
if left == 0 then
  call('UNLINK', IDS, MSGS, KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9])
else
  call('ZREM', KEYS[6], ARGV[2])
  call('ZREM', KEYS[7], ARGV[2])
  call('ZREM', KEYS[9], ARGV[2])
  if ARGV[3] ~= '1' then more = trimRead(MEMBERS, MSGS) end
end
return { was == 1 and left or -1, more }
