-- Makes lists expire, never sooner than they would have.
-- KEYS: the lists, at most 1000
-- ARGV: seconds that each has to live at least
-- Returns: how many now live longer
local longer = 0
for i = 1, math.min(#KEYS, 1000) do
  local left = redis.call('TTL', KEYS[i])
  local seconds = tonumber(ARGV[i])
  if left ~= -2 and left < seconds then longer = longer + redis.call('EXPIRE', KEYS[i], seconds) end
end
return longer
