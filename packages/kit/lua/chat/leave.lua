-- Removes a member; the last one out removes the room. Begins with ZREM, so it works without memory.
--
-- KEYS  1 members  2 ids  3 msgs  4 seen of the user  5 live  6 typing  7 present  8 sends  9 joined
-- ARGV  1 room  2 user  3 "1": keep what all have read
-- Returns {members that are left, or -1 if the user is no member, 1 if there is more to remove}
local MEMBERS, IDS, MSGS, SEEN = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local call = redis.call
for i, key in ipairs(KEYS) do -- a wrong type fails here, before anything is written
  if i ~= 2 and i ~= 5 and i ~= 8 then call('ZCARD', key) end
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
