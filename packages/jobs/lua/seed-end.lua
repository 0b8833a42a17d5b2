-- Removes a taken item that is finished, or sets it aside. A repeated call changes nothing.
--
-- KEYS  1 hash token -> item, 2 zset token -> ms when the lease expires, 3 list of items set aside
-- ARGV  1 the token, 2 "1" to set the item aside
-- Returns 1, or 0 if the item is not held with this token.
local TAKEN, LEASES, BAD = unpack(KEYS)
local item = redis.call("HGET", TAKEN, ARGV[1])
if not item then return 0 end
local length = redis.pcall("LLEN", BAD)
if type(length) == "table" then return length end -- of a foreign type: the item stays where it is
redis.call("ZREM", LEASES, ARGV[1])
redis.call("HDEL", TAKEN, ARGV[1]) -- before the push: lets this work while Redis is out of memory
if ARGV[2] == "1" then redis.call("RPUSH", BAD, item) end
return 1
