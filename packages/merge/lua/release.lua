-- Gives the lock back; the batch stays at the head and is handed out again.
--
-- KEYS  1-9 the unit
-- ARGV  1 key  2 channel  3 token  4 "" or the new time in seconds  5 "1": this was not an attempt
--       6 "" or why it failed
-- Returns 1, or 0 if the token does not hold the lock
local timer, _, _, _, locker, _, _, state = unpack(KEYS)
if redis.call('GET', locker) ~= ARGV[3] then return 0 end
redis.call('DEL', locker)
if redis.call('HEXISTS', state, 'batch') == 0 then return 1 end -- deleted meanwhile
if ARGV[5] == '1' then redis.call('HINCRBY', state, 'attempts', -1) end
if ARGV[6] ~= '' then redis.call('HSET', state, 'error', ARGV[6]) end
if ARGV[4] ~= '' then
  redis.call('ZADD', timer, ARGV[4], ARGV[1])
  redis.call('PUBLISH', ARGV[2], 'insert')
end
return 1
