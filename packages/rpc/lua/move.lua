-- Moves calls that nobody has popped yet from one list to another; one that was popped stays where it
-- is, so that none runs twice.
-- KEYS: the list they wait in, the list they go to
-- ARGV: for each call its text as it stands in the first list, and as it shall stand in the second;
--       an empty second text only removes
-- Returns: 1 or 0 for each call: whether it was moved
local moved = {}
for i = 1, #ARGV, 2 do
  local found = redis.call('LREM', KEYS[1], 1, ARGV[i])
  if found > 0 and ARGV[i + 1] ~= '' then redis.call('LPUSH', KEYS[2], ARGV[i + 1]) end
  moved[#moved + 1] = found
end
return moved
