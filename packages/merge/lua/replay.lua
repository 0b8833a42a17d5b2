-- Brings a dead letter back: its items go to the end of their key, which fires now.
--
-- KEYS  1-9 the unit, 10-15 the letter
-- ARGV  1 key  2 channel  3 id of the letter  4 "1": a single, delivered item by item
-- Returns items brought back, or -1 if there is no such letter
local timer, queue, items, data, _, _, _, state, singles = unpack(KEYS)
local dead, record, deadBodies, deadItems, deadData, deadOf = unpack(KEYS, 10)
if redis.call('HGET', record, 'key') ~= ARGV[1] then return -1 end

local count = redis.call('LLEN', deadBodies)
-- Heads that are missing (a queue of the seed) are made up by get().
local function append(from, to)
  for i = 0, count - 1, 500 do
    local part = redis.call('LRANGE', from, i, i + 499)
    if #part > 0 then redis.call('RPUSH', to, unpack(part)) end
  end
end
append(deadBodies, queue)
append(deadItems, items)
local fields = redis.call('HGETALL', deadData)
if #fields > 0 then redis.call('HSET', data, unpack(fields)) end
if ARGV[4] == '1' then redis.call('ZADD', singles, 0, ARGV[1]) end

local now = redis.call('TIME')
local score = string.format('%d.%03d', now[1], math.floor(now[2] / 1000))
if redis.call('HEXISTS', state, 'batch') == 1 then
  redis.call('HSET', state, 'next', score)
else
  redis.call('ZADD', timer, score, ARGV[1])
end
redis.call('DEL', record, deadBodies, deadItems, deadData)
redis.call('ZREM', dead, ARGV[3])
redis.call('ZREM', deadOf, ARGV[3])
redis.call('PUBLISH', ARGV[2], 'insert')
return count
