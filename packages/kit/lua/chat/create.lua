-- Makes a room with its first members, all of them at the beginning.
--
-- KEYS  1 members  2 ids  3 msgs  4 sends  5 joined  6... seen of each user
-- ARGV  1 room  2 slot of the sender  3 number, as in send.lua  4... users, as many as KEYS from 6 on
-- Returns 1, or 0 if there is such a room
local call = redis.call
local KEEP_MS = 600000 -- as in send.lua
if call('ZCARD', KEYS[1]) > 0 then
  local number = string.match(call('HGET', KEYS[4], ARGV[2]) or '', '^%d+')
  return number == ARGV[3] and 1 or 0 -- 1: the first reply was lost
end
for i = 6, #KEYS do call('ZCARD', KEYS[i]) end -- a wrong type fails here, before anything is written
call('ZADD', KEYS[1], 0, ARGV[4])
call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5]) -- of a room that was left by a program that died half way
call('HSET', KEYS[4], ARGV[2], ARGV[3] .. ' 0 ' .. call('TIME')[1])
call('PEXPIRE', KEYS[4], KEEP_MS)
for i = 6, #KEYS do
  call('ZADD', KEYS[1], 0, ARGV[i - 2])
  call('ZADD', KEYS[i], 0, ARGV[1])
end
return 1
