-- Makes a room with its first members, all of them at the beginning.
--
-- KEYS  1 members  2 ids  3 msgs  4 sends  5... seen of each user
-- ARGV  1 room  2... users, as many as KEYS from 5 on
-- Returns 1, or 0 if there is such a room
local call = redis.call
if call('ZCARD', KEYS[1]) > 0 then return 0 end
for i = 5, #KEYS do call('ZCARD', KEYS[i]) end -- a wrong type fails here, before anything is written
call('ZADD', KEYS[1], 0, ARGV[2])
call('UNLINK', KEYS[2], KEYS[3], KEYS[4]) -- of a room that was left by a program that died half way
for i = 5, #KEYS do
  call('ZADD', KEYS[1], 0, ARGV[i - 3])
  call('ZADD', KEYS[i], 0, ARGV[1])
end
return 1
