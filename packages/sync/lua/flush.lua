-- Empties one node of a cluster, unless a newer run of the task has claimed it. Keeps the checkpoint.
--
-- KEYS[1]    hash, the mark of a slot of the node
-- KEYS[2]    hash, the checkpoint of the task; only if it is in this slot
-- ARGV[1]    epoch of this run
-- ARGV[2]    FLUSHALL or FLUSHDB
-- ARGV[3]    SYNC, ASYNC, or empty
-- Returns    {"fenced", epoch} or {"flushed"}
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) > tonumber(ARGV[1]) then
  return {'fenced', epoch}
end
local checkpoint = KEYS[2] and redis.call('HGETALL', KEYS[2]) or {}
if ARGV[3] == '' then
  redis.call(ARGV[2])
else
  redis.call(ARGV[2], ARGV[3])
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
for at = 1, #checkpoint, 2 do
  redis.call('HSET', KEYS[2], checkpoint[at], checkpoint[at + 1])
end
return {'flushed'}
