-- Removes a transfer whose sender has failed and cannot resume it, so that its receivers do not wait for the
-- rest. If all chunks are there, the receivers need no sender, and nothing is removed.
--
-- KEYS  1 meta  2 chunks  3 acks  4 leases  5 waiters
-- Returns 1, or 0 if nothing was removed
if redis.call('HEXISTS', KEYS[1], 'chunks') == 1 then return 0 end
return redis.call('UNLINK', unpack(KEYS)) > 0 and 1 or 0
