-- Sets the expiry of lists, never sooner than their current one.
-- KEYS: the lists, at most 1000
-- ARGV: the minimum lifetime of each in seconds
-- Returns: how many expiries were extended
local longer = 0
for i = 1, math.min(#KEYS, 1000) do
  local left = redis.call('TTL', KEYS[i])
  local seconds = tonumber(ARGV[i])
  if left ~= -2 and left < seconds then longer = longer + redis.call('EXPIRE', KEYS[i], seconds) end
end
return longer
