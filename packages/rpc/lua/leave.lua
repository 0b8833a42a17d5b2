-- Removes a worker from every index when it closes.
-- KEYS: for each sign of life its index and its key, then the lease set of each at-least-once list
-- ARGV: the worker's id, the number of signs of life, then the node of each
-- Returns: how many signs of life existed
local signs = tonumber(ARGV[2])
local removed = 0
for i = 1, signs do
  removed = removed + redis.call('DEL', KEYS[2 * i])
  redis.call('ZREM', KEYS[2 * i - 1], ARGV[2 + i])
end
-- A lease that has just ended: calls that the worker left unfinished are reclaimed at once.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2 * signs + 1, #KEYS do
  redis.call('ZADD', KEYS[i], 'XX', now - 1, ARGV[1])
end
return removed
