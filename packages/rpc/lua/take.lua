-- Moves waiting calls into the worker's own in-flight list, so that they survive the worker.
-- KEYS: the request list, the in-flight list of the worker, the lease set of the request list
-- ARGV: the worker's id, its lease in ms, the maximum number of calls, the side to pop from (RIGHT or LEFT)
-- Returns: the calls
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local taken = {}
for _ = 1, tonumber(ARGV[3]) do
  local call = redis.call('LMOVE', KEYS[1], KEYS[2], ARGV[4], 'LEFT')
  if not call then break end
  taken[#taken + 1] = call
end
redis.call('ZADD', KEYS[3], now + ARGV[2], ARGV[1])
return taken
