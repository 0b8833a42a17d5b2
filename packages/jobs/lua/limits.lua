-- Writes a queue's limits and returns groups that a limit held back to the round, a bounded number per call.
--
-- KEYS  the queue's, up to OUTBOX
-- ARGV  1 maximum of groups, 2 how many fields to write, then field, value ..., then fields to remove
-- Returns how many groups are still held back.
local problem = wrongType(1, #KEYS)
if problem then return problem end
redis.call("HDEL", META, "") -- removing something first lets this script work while Redis is out of memory
local limit, written = tonumber(ARGV[1]), tonumber(ARGV[2])
for i = 3, 2 + written * 2, 2 do redis.call("HSET", META, ARGV[i], ARGV[i + 1]) end
for i = 3 + written * 2, #ARGV do redis.call("HDEL", META, ARGV[i]) end
for _, group in ipairs(redis.call("ZRANGE", CAPPED, 0, limit - 1)) do
  redis.call("ZREM", CAPPED, group)
  if hasWaiting(group) then joinRound(group) end
end
redis.call("ZADD", WAKE, 0, "0")
return redis.call("ZCARD", CAPPED)
