-- Writes what an operator decided about an endpoint; it stays until the operator takes it back.
--
-- KEYS  1 endpoints  2 endpoint  3 marked
-- ARGV  1 URL  2 maximum of marked endpoints  3 fields to delete, separated by spaces, or ""
--       4.. field, value ... to write (at most ten)
-- Returns 1, or 0 if the maximum is reached
local call = redis.call
local isMarked = call('ZSCORE', KEYS[3], ARGV[1])
if not isMarked and call('ZCARD', KEYS[3]) >= tonumber(ARGV[2]) then return 0 end
call('HLEN', KEYS[2])
local now = call('TIME')[1]
call('ZADD', KEYS[1], now, ARGV[1])
if #ARGV > 3 then call('HSET', KEYS[2], unpack(ARGV, 4, math.min(#ARGV, 23))) end
for field in string.gmatch(ARGV[3], '%S+') do call('HDEL', KEYS[2], field) end
call('ZADD', KEYS[3], now, ARGV[1])
call('PERSIST', KEYS[2])
return 1
