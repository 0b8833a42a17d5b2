-- Takes calls that nobody has popped yet out of a list. The calls are the oldest ones as a rule, so the
-- search begins at the side that is popped.
-- KEYS: the list
-- ARGV: the side that is popped (RIGHT or LEFT), then the text of each call, at most 1000
-- Returns: 1 or 0 for each call: whether it was there
local count = ARGV[1] == 'RIGHT' and -1 or 1
local found = {}
for i = 2, math.min(#ARGV, 1001) do
  found[#found + 1] = redis.call('LREM', KEYS[1], count, ARGV[i])
end
return found
