-- Takes the call with an id out of a list, looking at a bounded number of its oldest elements.
-- KEYS: the list
-- ARGV: the id as it stands in the text ("id":"..."), the side that is popped (RIGHT or LEFT), at most how
--       many elements to look at
-- Returns: the text of the call, or false if it was not found
local mark, right, most = ARGV[1], ARGV[2] == 'RIGHT', tonumber(ARGV[3])
local step = 200
for from = 0, most - 1, step do
  local first, last = from, from + step - 1
  if right then first, last = -(from + step), -(from + 1) end
  local texts = redis.call('LRANGE', KEYS[1], first, last)
  if #texts == 0 then break end
  for _, text in ipairs(texts) do
    -- Callers of ours write the id behind the deadline; elsewhere it may be a part of the params.
    if string.sub(text, 21, 20 + #mark) == mark then
      redis.call('LREM', KEYS[1], right and -1 or 1, text)
      return text
    end
  end
end
return false
