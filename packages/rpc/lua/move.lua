-- Moves session calls that were not popped yet from the list of one node to that of another. A call that
-- was popped is not moved, so that none runs twice.
-- KEYS: the list in which they wait, the list to which they move
-- ARGV: ttl of the second list in ms, then for each call, at most 500, its text in the first
--       list and its text in the second
-- Returns: for each call 1 if it was moved, else 0
local moved = {}
for i = 2, math.min(#ARGV, 1001) - 1, 2 do
  local found = redis.call('LREM', KEYS[1], -1, ARGV[i])
  if found > 0 then redis.call('LPUSH', KEYS[2], ARGV[i + 1]) end
  moved[#moved + 1] = found
end
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[2], ARGV[1]) end
return moved
