-- Claims a slot for a run of the task, so that earlier runs can no longer write to it.
--
-- KEYS[1]    hash, the mark of the slot
-- ARGV[1]    epoch of this run
-- ARGV[2]    "keep" keeps the offset; "reset" clears it before a full copy
-- Returns    {"fenced", epoch}, or {"claimed", field, value, ...}: all fields of the mark
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) > tonumber(ARGV[1]) then
  return {'fenced', epoch}
end
if ARGV[2] == 'reset' then
  redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
local result = {'claimed'}
for _, word in ipairs(redis.call('HGETALL', KEYS[1])) do
  result[#result + 1] = word
end
return result
