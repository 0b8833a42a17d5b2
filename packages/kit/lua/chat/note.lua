-- Notes that a user is typing or present for a while, and tells live feeds.
--
-- KEYS  1 members  2 typing or present  3 live
-- ARGV  1 user  2 "typing" or "present"  3 ms
-- Returns 1, or -1 if the user is no member
local MEMBERS, NOTED, LIVE = unpack(KEYS)
local call = redis.call
if not call('ZSCORE', MEMBERS, ARGV[1]) then return -1 end
call('XLEN', LIVE)
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('ZADD', NOTED, now + ARGV[3], ARGV[1])
call('ZREMRANGEBYSCORE', NOTED, '-inf', now)
local longest = call('ZRANGE', NOTED, -1, -1, 'WITHSCORES')[2]
call('PEXPIREAT', NOTED, longest)
call('XADD', LIVE, 'MAXLEN', 100, '*', ARGV[2], ARGV[1])
call('PEXPIRE', LIVE, 600000) -- as in send.lua
return 1
