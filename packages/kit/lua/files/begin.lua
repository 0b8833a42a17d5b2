-- Starts the transfer of a file, or finds one that its sender left unfinished.
--
-- KEYS  1 meta  2 acks  3 leases
-- ARGV  1 name  2 chunk bytes  3 lease ms  4 ms the keys are kept  5... receivers
-- Returns {next chunk, 1 if all chunks were sent before else 0, 1 if it was announced else 0, chunk bytes of
--          the transfer: a sender that resumes may have been given others, SHA-256 of the chunks before the next
--          one ("": not known)}, or {} if the transfer is one for other receivers
local META, ACKS, LEASES = unpack(KEYS)
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local names = {}
for i = 5, #ARGV do names[#names + 1] = ARGV[i] end
table.sort(names)
local receivers = redis.sha1hex(table.concat(names, '\0'))

local known = call('HMGET', META, 'next', 'chunks', 'done', 'announced', 'chunkBytes', 'receivers', 'sent')
if known[1] then
  if known[6] and known[6] ~= receivers then return {} end
  local finished = (known[2] or known[3]) and 1 or 0
  return { tonumber(known[1]), finished, known[4] and 1 or 0, tonumber(known[5]), known[7] or '' }
end
call('ZCARD', ACKS)
call('ZCARD', LEASES) -- a wrong type fails here, before anything is written
call('HSET', META, 'name', ARGV[1], 'chunkBytes', ARGV[2], 'next', 0, 'low', 0, 'since', now, 'receivers', receivers)
for i = 5, #ARGV do
  call('ZADD', ACKS, 0, ARGV[i])
  call('ZADD', LEASES, now + ARGV[3], ARGV[i])
end
for i = 1, #KEYS do call('PEXPIRE', KEYS[i], ARGV[4]) end
return { 0, 0, 0, tonumber(ARGV[2]), '' }
