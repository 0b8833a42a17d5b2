-- The sender's step: adds the next chunk if there is room for it, or says that it was the last one, drops
-- receivers whose lease ended, and ends the transfer when none is left. A failover may lose what the sender
-- has said before; the sender then starts again at the chunk that is missing.
--
-- KEYS  1 meta  2 chunks  3 acks  4 leases  5 waiters
-- ARGV  1 "chunk", "end", "await" (after the end) or "look"  2 index of the chunk, or number of chunks
--       3 chunk, or SHA-256
--       4 most chunks in Redis, or size in bytes  5 SHA-256 of the file up to the end of the chunk
--       6 ms the keys are kept  7 "list token" of the sender
-- Returns {status, receivers that are left, receivers dropped, lowest chunk that is needed,
--          {list, message ...} to wake}
--   status: 0 taken, 1 no room, 2 no receiver is left, 3 unknown transfer, 4 chunks before it, or the end, are lost,
--           5 the transfer is one of another file
local META, CHUNKS, ACKS, LEASES, WAITERS = unpack(KEYS)
local call = redis.call
local AT_ONCE, KEEP_RESULT_MS = 1000, 60000
local verb, index, keep = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = call('HMGET', META, 'next', 'low', 'done', 'dropped', 'chunks', 'sha256')
if not known[1] then return { 3, 0, 0, 0, {} } end
local nextChunk, low, dropped = tonumber(known[1]), tonumber(known[2]), tonumber(known[4] or 0)
call('HLEN', CHUNKS)
call('HLEN', WAITERS) -- a wrong type fails here, before anything is written
if verb == 'end' and known[6] and known[6] ~= ARGV[3] then return { 5, 0, dropped, low, {} } end
if known[3] then return { 2, call('ZCARD', ACKS), dropped, low, {} } end
local lost = (verb == 'chunk' or verb == 'end') and index > nextChunk or verb == 'await' and not known[5]
if lost then return { 4, call('ZCARD', ACKS), dropped, low, {} } end

-- PEXPIRE comes first: without memory Redis refuses only the first write of a script.
if verb ~= 'chunk' then call('PEXPIRE', META, keep) end

local status = 0
if verb == 'chunk' then
  if index - low >= tonumber(ARGV[4]) then
    status = 1
  elseif index == nextChunk then
    call('HSET', CHUNKS, index, ARGV[3])
    nextChunk = index + 1
    call('HSET', META, 'next', nextChunk, 'sent', ARGV[5])
  end
elseif verb == 'end' then
  call('HSET', META, 'chunks', index, 'sha256', ARGV[3], 'size', ARGV[4])
end

for _, receiver in ipairs(call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, AT_ONCE)) do
  if call('ZREM', ACKS, receiver) == 1 then dropped = dropped + 1 end
  call('ZREM', LEASES, receiver)
  call('HSET', META, 'dropped', dropped)
end
local slowest = tonumber(call('ZRANGE', ACKS, 0, 0, 'WITHSCORES')[2] or nextChunk)
for i = low, math.min(slowest, low + AT_ONCE) - 1 do call('HDEL', CHUNKS, i) end
low = math.min(slowest, low + AT_ONCE)
call('HSET', META, 'low', low)

local wakes = {}
if status == 0 and (verb == 'chunk' or verb == 'end') then
  local waiting = call('HGETALL', WAITERS)
  for i = 2, #waiting, 2 do
    local list, token = string.match(waiting[i], '^(.*) (%S+)$')
    wakes[#wakes + 1] = list
    wakes[#wakes + 1] = token
  end
  call('DEL', WAITERS)
end
local left = call('ZCARD', ACKS)
if left == 0 then
  call('UNLINK', CHUNKS, ACKS, LEASES, WAITERS)
  call('HSET', META, 'done', 1)
  call('PEXPIRE', META, KEEP_RESULT_MS)
  return { 2, left, dropped, low, wakes }
end
call('HSET', META, 'sender', ARGV[7])
for i = 1, #KEYS do call('PEXPIRE', KEYS[i], keep) end
return { status, left, dropped, low, wakes }
