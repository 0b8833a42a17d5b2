-- Puts the calls of a dead worker back to the end of the request list that is popped next. A call that was put
-- back too often is moved to the dead list, because it may crash its workers.
-- KEYS: the request list, the lease set, the in-flight list of the worker, the attempts, the dead list
-- ARGV: the worker's id, the side to pop from (RIGHT or LEFT), the maximum number of runs of a call, the
--       maximum number of calls to put back in this run
-- Returns: {number put back, number moved to the dead list, number left}, or {} if the worker's lease
--          is still valid
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease = redis.call('ZSCORE', KEYS[2], ARGV[1])
if lease and tonumber(lease) > now then return {} end
-- Checks the types before the first write: a call that cannot be put anywhere must not be popped.
for i, expected in pairs({ [1] = 'list', [4] = 'hash', [5] = 'list' }) do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'none' and kind ~= expected then
    return redis.error_reply('WRONGTYPE the key ' .. KEYS[i] .. ' holds a ' .. kind)
  end
end
local back, aside = 0, 0
-- The in-flight list is pushed on the left. Popping it from the left takes the newest first, so that
-- the oldest call is the first to be popped again.
for _ = 1, tonumber(ARGV[4]) do
  local call = redis.call('LPOP', KEYS[3])
  if not call then break end
  local field = redis.sha1hex(call)
  local runs = redis.pcall('HINCRBY', KEYS[4], field, 1)
  if type(runs) == 'table' then -- a foreign value must not lose the popped call
    runs = 1
    redis.call('HSET', KEYS[4], field, runs)
  end
  if runs >= tonumber(ARGV[3]) then
    redis.call('HDEL', KEYS[4], field)
    redis.call('LPUSH', KEYS[5], cjson.encode({ time = now, reason = 'ran too often', raw = call }))
    redis.call('LTRIM', KEYS[5], 0, 999)
    aside = aside + 1
  else
    redis.call(ARGV[2] == 'RIGHT' and 'RPUSH' or 'LPUSH', KEYS[1], call)
    back = back + 1
  end
end
-- The count of a call that its caller withdraws stays for a day at most.
if back > 0 then redis.call('EXPIRE', KEYS[4], 86400) end
-- Kept for an hour longer: a worker that was only suspended may still move a call into its list.
local left = redis.call('LLEN', KEYS[3])
if left == 0 and lease and now - tonumber(lease) > 3600000 then redis.call('ZREM', KEYS[2], ARGV[1]) end
return { back, aside, left }
