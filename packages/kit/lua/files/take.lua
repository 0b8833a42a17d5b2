-- A receiver's step: says that it has all chunks below a number, and gets the one after them. Chunks that
-- all receivers have are removed. The receiver stays one until finish.lua, since it may crash before it has
-- dealt with the last chunk.
--
-- KEYS  1 meta  2 chunks  3 acks  4 leases  5 waiters
-- ARGV  1 receiver  2 chunks it has, or -1 to ask where it was  3 lease ms  4 ms the keys are kept
--       5 "list token" to wake if the chunk is not there, or "-" to renew the lease only
-- Returns {status, number, data, wake list, wake message}
--   status: 0 chunk `number`, 1 not there yet, 2 that was all (data: "SHA-256 size"), 3 unknown transfer,
--           4 not a receiver any more
local META, CHUNKS, ACKS, LEASES, WAITERS = unpack(KEYS)
local call = redis.call
local AT_ONCE = 1000
local receiver, has = ARGV[1], tonumber(ARGV[2])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = call('HMGET', META, 'low', 'chunks', 'sha256', 'sender', 'dropped', 'done', 'size')
if not known[1] or known[6] then return { 3, 0, '', '', '' } end
local score = call('ZSCORE', ACKS, receiver)
if not score then return { 4, 0, '', '', '' } end
call('HLEN', CHUNKS)
call('HLEN', WAITERS) -- a wrong type fails here, before anything is written

has = math.max(has, tonumber(score))
local low, total, dropped = tonumber(known[1]), tonumber(known[2] or -1), tonumber(known[5] or 0)
-- First, so that it works without memory. Until all chunks are there only the sender prolongs META: if it
-- never comes back, its receivers do not wait for ever.
for i = #KEYS, total >= 0 and 1 or 2, -1 do call('PEXPIRE', KEYS[i], ARGV[4]) end
call('ZADD', ACKS, 'GT', has, receiver)
call('ZADD', LEASES, now + ARGV[3], receiver)
for _, other in ipairs(call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, AT_ONCE)) do
  if call('ZREM', ACKS, other) == 1 then dropped = dropped + 1 end
  call('ZREM', LEASES, other)
  call('HSET', META, 'dropped', dropped)
end

local slowest = math.min(tonumber(call('ZRANGE', ACKS, 0, 0, 'WITHSCORES')[2]), low + AT_ONCE)
local list, token = '', ''
if slowest > low then
  for i = low, slowest - 1 do call('HDEL', CHUNKS, i) end
  call('HSET', META, 'low', slowest)
  list, token = string.match(known[4] or '', '^(.*) (%S+)$')
end
if total >= 0 and has >= total then return { 2, has, known[3] .. ' ' .. known[7], list or '', token or '' } end
if ARGV[5] == '-' then return { 1, has, '', list or '', token or '' } end
local chunk = call('HGET', CHUNKS, has)
if chunk then return { 0, has, chunk, list or '', token or '' } end
call('HSET', WAITERS, receiver, ARGV[5])
call('PEXPIRE', WAITERS, ARGV[4])
return { 1, has, '', list or '', token or '' }
