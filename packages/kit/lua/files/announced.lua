-- Notes that the room was told of a transfer, unless the data of the transfer is gone.
--
-- KEYS  1 meta
-- Returns 1, or 0 if it is gone
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'announced', 1)
return 1
