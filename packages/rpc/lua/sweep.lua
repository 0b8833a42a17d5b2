-- Removes outdated calls of ours from the oldest elements of a request list. Calls of other programs, which
-- carry no deadline, wait for as long as it takes.
-- KEYS: the index of request lists, the request list
-- ARGV: the side that is popped (RIGHT or LEFT), at most how many elements to look at
-- Returns: how many calls were removed
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local right, most = ARGV[1] == 'RIGHT', tonumber(ARGV[2])
local kind = redis.call('TYPE', KEYS[2]).ok
local texts = {}
if kind == 'list' then
  texts = redis.call('LRANGE', KEYS[2], right and -most or 0, right and -1 or most - 1)
end
local removed = 0
for _, text in ipairs(texts) do
  local deadline = string.match(text, '^{"dl":(%d%d%d%d%d%d%d%d%d%d%d%d%d),')
  if deadline and tonumber(deadline) < now then
    removed = removed + redis.call('LREM', KEYS[2], right and -1 or 1, text)
  end
end
-- Looked at again as long as there may be more.
if #texts < most or removed == 0 then redis.call('ZREM', KEYS[1], KEYS[2]) end
return removed
