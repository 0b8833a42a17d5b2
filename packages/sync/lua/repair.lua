-- Writes a key as the source has it, unless the stream has already been applied beyond the offset of that value.
--
-- KEYS[1]    hash, the checkpoint of the shard or the mark of the slot: offset, phase
-- KEYS[2]    the key
-- ARGV[1]    offset of the source at which the key had this value
-- ARGV[2]    database of the key; empty on a cluster
-- ARGV[3..]  commands, each as: number of words, words (at most 7000)
-- Returns    1, or 0 if nothing was written because the stream is already beyond that offset
local mark = redis.call('HMGET', KEYS[1], 'offset', 'phase')
if tonumber(mark[1] or '0') > tonumber(ARGV[1]) or mark[2] == 'load' then
  return 0
end
if ARGV[2] ~= '' then
  redis.call('SELECT', ARGV[2])
end
local at = 3
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return 1
