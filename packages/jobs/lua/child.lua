-- Records the outcome of a child that ended in another queue. A repeated call changes nothing.
--
-- KEYS  the queue's, up to OUTBOX
-- ARGV  1 parent id, 2 child id, 3 policy: 0 fail, 1 ignore, 2 remove, 4 "c" completed | "f" failed |
--       "r" removed, 5 result or error as JSON, 6 token of the flow or ""
-- Returns 1.
local problem = wrongType(1, #KEYS)
if problem then return problem end
-- Removing something first lets this script work while Redis is out of memory.
redis.call("HDEL", CHILDREN, "")
listening = isLater(redis.call("HGET", META, "listen"))
local policy = tonumber(ARGV[3])
recordChild(ARGV[1], ARGV[2], ARGV[6] ~= "" and ARGV[6] or nil, policy > 0 and policy or nil, ARGV[4], ARGV[5])
if due == 0 then publish("control", "due") end
return 1
