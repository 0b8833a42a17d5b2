-- Raises a target's fence, or writes one step under it.
--
-- KEYS  1 fence, 2 counter, 3 list of the epochs that wrote
-- ARGV  1 the writer's epoch, 2 "raise" or "step", 3 how many entries the list keeps
-- Returns the counter, or -1 if a later epoch has the fence; nothing was changed then.
local fence = tonumber(redis.call("GET", KEYS[1]) or "0")
local epoch = tonumber(ARGV[1])
if fence > epoch then return -1 end
if ARGV[2] == "raise" then
  redis.call("SET", KEYS[1], ARGV[1])
  return tonumber(redis.call("GET", KEYS[2]) or "0")
end
if fence ~= epoch then return -1 end
redis.call("RPUSH", KEYS[3], ARGV[1])
redis.call("LTRIM", KEYS[3], -tonumber(ARGV[3]), -1)
return redis.call("INCR", KEYS[2])
