-- Appends attempts to the log, which keeps the last ones.
--
-- KEYS  1 attempts
-- ARGV  1 maximum of entries  2.. one JSON per attempt (at most a hundred)
-- Returns the number of entries written
for i = 2, math.min(#ARGV, 101) do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'attempt', ARGV[i])
end
return #ARGV - 1
