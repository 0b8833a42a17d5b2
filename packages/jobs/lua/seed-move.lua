-- Moves one due item of the documented delayed zset to its list, unless another program did.
--
-- KEYS  1 delayed:, 2 the list, 3 the list for items that cannot be moved
-- ARGV  1 the item
-- Returns 1 if this call moved it.
local DELAYED, LIST, BAD = unpack(KEYS)
if type(redis.pcall("LLEN", LIST)) == "table" then LIST = BAD end -- of a foreign type: other items must not wait
local length = redis.pcall("LLEN", LIST)
if type(length) == "table" then return length end -- the item stays where it is
if redis.call("ZREM", DELAYED, ARGV[1]) == 0 then return 0 end
redis.call("RPUSH", LIST, ARGV[1])
return 1
