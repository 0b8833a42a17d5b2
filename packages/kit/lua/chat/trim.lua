-- Goes on with what acknowledge.lua or leave.lua has begun to remove.
--
-- KEYS  1 members  2 msgs
-- Returns 1 if there is more to remove
return trimRead(KEYS[1], KEYS[2])
