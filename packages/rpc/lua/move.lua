-- Moves session calls that nobody has popped yet from the list of one node to that of another; one that
-- was popped is left alone, so that none runs twice.
-- KEYS: the list they wait in, the list they go to
-- ARGV: ttl of the second list in ms, then for each call, at most 500, its text as it stands in the first
--       list and as it will stand in the second
-- Returns: 1 or 0 for each call: whether it was moved
local moved = {}
for i = 2, math.min(#ARGV, 1001) - 1, 2 do
  local found = redis.call('LREM', KEYS[1], -1, ARGV[i])
  if found > 0 then redis.call('LPUSH', KEYS[2], ARGV[i + 1]) end
  moved[#moved + 1] = found
end
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[2], ARGV[1]) end
return moved
