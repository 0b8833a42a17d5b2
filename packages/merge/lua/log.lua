-- Appends attempts to the log, which keeps the newest, and adds to the totals of all dispatchers.
--
-- KEYS  1 attempts  2 totals
-- ARGV  1 maximum of entries  2 number of total words, then these words: name, number ... (at most 200)
--       then one JSON per attempt (at most a hundred)
-- Returns the number of entries written
local call, words = redis.call, math.min(tonumber(ARGV[2]), 200)
call('XLEN', KEYS[1])
call('HLEN', KEYS[2])
for i = 3, 2 + words, 2 do call('HINCRBY', KEYS[2], ARGV[i], ARGV[i + 1]) end
local last = math.min(#ARGV, 102 + words)
for i = 3 + words, last do
  call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'attempt', ARGV[i])
end
return last - 2 - words
