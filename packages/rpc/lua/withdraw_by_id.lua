-- Removes the call with an id from a list, examining a bounded number of its oldest elements. Calls may be
-- large, and copying hundreds of them would block Redis, so the bytes are bounded as well.
-- KEYS: the list
-- ARGV: the id as in the text ("id":"..."), the side that is popped (RIGHT or LEFT), the maximum number
--       of elements and of bytes to examine
-- Returns: 1, or 0 if it was not found
local mark, right, most, bytes = ARGV[1], ARGV[2] == 'RIGHT', tonumber(ARGV[3]), tonumber(ARGV[4])
local seen, read, step = 0, 0, 1
while seen < most and read < bytes do
  local first, last = seen, seen + step - 1
  if right then first, last = -(last + 1), -(first + 1) end
  local texts = redis.call('LRANGE', KEYS[1], first, last)
  for _, text in ipairs(texts) do
    -- Ropeway clients write the id after the deadline; elsewhere it may be a part of the params.
    if string.sub(text, 21, 20 + #mark) == mark then
      redis.call('LREM', KEYS[1], right and -1 or 1, text)
      return 1
    end
    read = read + #text
  end
  if #texts < step then return 0 end
  seen = seen + step
  -- As many as will probably be needed, by the size of the previous ones.
  step = math.max(1, math.min(16, most - seen, math.floor((bytes - read) * seen / (read + 1))))
end
return 0
