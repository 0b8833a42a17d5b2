-- A user's rooms, or the members of a room, in the order of their cursors, after a place in that order. Acknowledging
-- moves them towards the end, so a pass skips none, also if the one at that place has moved or is gone.
--
-- KEYS  1 seen of the user, or members
-- ARGV  1 how many at most  2 cursor of the last one of the page before, or ""  3 its name
-- Returns {name, cursor ...}
local call = redis.call
local function isAfter(a, b) -- by bytes, as Redis does; < would follow the locale
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end
local low = 0
if ARGV[2] ~= '' then
  low = call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[2])
  local high = call('ZCOUNT', KEYS[1], '-inf', ARGV[2])
  while low < high do
    local middle = math.floor((low + high) / 2)
    if isAfter(call('ZRANGE', KEYS[1], middle, middle)[1], ARGV[3]) then high = middle else low = middle + 1 end
  end
end
return call('ZRANGE', KEYS[1], low, low + ARGV[1] - 1, 'WITHSCORES')
