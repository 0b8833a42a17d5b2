-- A receiver has dealt with a file: it is no receiver of it any more, and its cursor moves past the
-- announcement, in one step, so a crash before or after cannot lose the file or bring it twice. The last one
-- ends the transfer. Begins with ZREM, so it works without memory.
--
-- KEYS  1 meta  2 chunks  3 acks  4 leases  5 waiters  6 members  7 seen of the receiver
-- ARGV  1 receiver  2 room  3 id of the announcement
-- Returns {list, message} to wake the sender, or {}
local META, CHUNKS, ACKS, LEASES, WAITERS, MEMBERS, SEEN = unpack(KEYS)
local call = redis.call
local KEEP_RESULT_MS = 60000
local sender = call('HGET', META, 'sender')
call('HLEN', CHUNKS)
call('HLEN', WAITERS)
call('ZCARD', LEASES)
call('ZCARD', SEEN) -- a wrong type fails here, before anything is written
-- Without META all data was lost, and the room may be a new one, whose announcements have the old ids.
local member = call('EXISTS', META) == 1 and call('ZSCORE', MEMBERS, ARGV[1])

local was = call('ZREM', ACKS, ARGV[1])
call('ZREM', LEASES, ARGV[1])
call('HDEL', WAITERS, ARGV[1])
if member then
  call('ZADD', MEMBERS, 'GT', ARGV[3], ARGV[1])
  call('ZADD', SEEN, 'GT', ARGV[3], ARGV[2])
end
if was == 0 then return {} end
if call('ZCARD', ACKS) == 0 then
  call('UNLINK', CHUNKS, LEASES, WAITERS)
  call('HSET', META, 'done', 1)
  call('PEXPIRE', META, KEEP_RESULT_MS) -- for the sender
end
local list, token = string.match(sender or '', '^(.*) (%S+)$')
return list and { list, token } or {}
