-- Counts a receiver of a file on the documented wire, once, and moves its cursor past the announcement. A member of the
-- channel that is no receiver of the file is not counted: the file would be removed before its last receiver has it.
-- Neither is a receiver that was counted behind an older announcement of the same name.
--
-- KEYS  1 done  2 members  3 seen of the receiver  4 content  5 named: the receivers that are not counted yet; absent if
--       all are, or if the sender is a documented program
-- ARGV  1 room  2 receiver  3 id of the announcement
-- Returns how many receivers are done, or 0 if this one was counted before, is no receiver, or comes after the file was
--         removed
local call = redis.call
local cursor = call('ZSCORE', KEYS[2], ARGV[2])
if not cursor or tonumber(cursor) >= tonumber(ARGV[3]) then return 0 end
call('ZCARD', KEYS[3])
local named = call('SCARD', KEYS[5]) > 0
call('ZREM', KEYS[3], '') -- a write that frees memory; those after it are then allowed without any
local counts = call('EXISTS', KEYS[4]) == 1 and (not named or call('SREM', KEYS[5], ARGV[2]) == 1)
local done = counts and call('INCR', KEYS[1]) or 0
local left = call('PTTL', KEYS[4]) -- the count ends with the content, if the sender died
if left > 0 then call('PEXPIRE', KEYS[1], left) end
call('ZADD', KEYS[2], 'GT', ARGV[3], ARGV[2])
call('ZADD', KEYS[3], 'GT', ARGV[3], ARGV[1])
return done
