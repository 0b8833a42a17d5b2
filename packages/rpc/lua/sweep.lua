-- Removes outdated calls of Ropeway clients from the oldest elements of a request list. Calls of other programs,
-- which carry no deadline, are kept.
-- KEYS: the index of request lists, the request list
-- ARGV: the side that is popped (RIGHT or LEFT), the maximum number of elements and of bytes to examine
-- Returns: how many calls were removed
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local right, most, bytes = ARGV[1] == 'RIGHT', tonumber(ARGV[2]), tonumber(ARGV[3])
local whole = redis.call('TYPE', KEYS[2]).ok ~= 'list'
local outdated = {}
local seen, read, step = 0, 0, 1
while not whole and seen < most and read < bytes do
  local first, last = seen, seen + step - 1
  if right then first, last = -(last + 1), -(first + 1) end
  local texts = redis.call('LRANGE', KEYS[2], first, last)
  for _, text in ipairs(texts) do
    read = read + #text
    local deadline = string.match(text, '^{"dl":(%d%d%d%d%d%d%d%d%d%d%d%d%d),')
    if deadline and tonumber(deadline) < now then outdated[#outdated + 1] = text end
  end
  whole = #texts < step
  seen = seen + step
  -- As many as will probably be needed, by the size of the previous ones.
  step = math.max(1, math.min(16, most - seen, math.floor((bytes - read) * seen / (read + 1))))
end
local removed = 0
for _, text in ipairs(outdated) do
  removed = removed + redis.call('LREM', KEYS[2], right and -1 or 1, text)
end
-- The list stays in the index as long as there may be more.
if whole or removed == 0 then redis.call('ZREM', KEYS[1], KEYS[2]) end
return removed
