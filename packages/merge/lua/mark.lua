-- Writes an operator's settings for an endpoint; they stay until the operator removes them.
--
-- KEYS  1 endpoints  2 endpoint  3 marked
-- ARGV  1 URL  2 maximum of marked endpoints  3 fields to delete, separated by spaces, or ""
--       4 "" or "=" and the secrets that the caller saw
--       5 ms to remember an endpoint that has no mark left  6.. field, value ... to write (at most ten)
-- Returns 1, 0 if the maximum is reached, or -1 if the secrets have changed
local call = redis.call
local isMarked = call('ZSCORE', KEYS[3], ARGV[1])
if not isMarked and call('ZCARD', KEYS[3]) >= tonumber(ARGV[2]) then return 0 end
local secrets = call('HGET', KEYS[2], 'secrets') or ''
if ARGV[4] ~= '' and ARGV[4] ~= '=' .. secrets then return -1 end
local now = call('TIME')[1]
call('ZADD', KEYS[1], now, ARGV[1])
if #ARGV > 5 then call('HSET', KEYS[2], unpack(ARGV, 6, math.min(#ARGV, 25))) end
for field in string.gmatch(ARGV[3], '%S+') do call('HDEL', KEYS[2], field) end
local marks = call('HMGET', KEYS[2], 'disabled', 'paused', 'rate', 'concurrency', 'secrets')
if marks[1] or marks[2] or marks[3] or marks[4] or marks[5] then
  call('ZADD', KEYS[3], now, ARGV[1])
  call('PERSIST', KEYS[2])
else
  call('ZREM', KEYS[3], ARGV[1])
  call('PEXPIRE', KEYS[2], ARGV[5])
end
return 1
