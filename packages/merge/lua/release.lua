-- Releases the lock; the batch stays at the head and is handed out again.
--
-- KEYS  1-11 the unit
-- ARGV  1 key  2 channel  3 token  4 "" the timer stays, "+ms" from now, or the new time in seconds
--       5 "1": this was not an attempt  6 "" or why it failed
-- Returns 1, 0 if the token does not hold the lock, or -2 if the batch was deleted; then nothing has changed
local timer, _, _, _, locker, _, _, state = unpack(KEYS)
if redis.call('GET', locker) ~= ARGV[3] then return 0 end
if redis.call('HEXISTS', state, 'batch') == 0 then return -2 end
local due = ARGV[4]
if string.sub(due, 1, 1) == '+' then
  local time = redis.call('TIME')
  due = string.format('%.3f', time[1] + time[2] / 1e6 + tonumber(string.sub(due, 2)) / 1000)
end
redis.call('DEL', locker)
if ARGV[5] == '1' then redis.call('HINCRBY', state, 'attempts', -1) end
if ARGV[6] ~= '' then redis.call('HSET', state, 'error', ARGV[6]) end
if due ~= '' then
  redis.call('ZADD', timer, due, ARGV[1])
  redis.pcall('PUBLISH', ARGV[2], 'insert')
end
return 1
