-- The members with the highest scores among the first of a prefix.
--
-- KEYS  1 members or folded  2 scores
-- ARGV  1 from  2 to, as ZRANGEBYLEX takes them  3 how many to look at (at most 1000)  4 how many to return
--       5 "1": KEYS[1] has entries "folded NUL member"
-- Returns members, highest score first
local call = redis.call
local found = call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, math.min(tonumber(ARGV[3]), 1000))
if ARGV[5] == '1' then
  for i, entry in ipairs(found) do found[i] = string.match(entry, '^[^%z]*%z(.*)$') or entry end
end
if #found == 0 then return found end
local scores = call('ZMSCORE', KEYS[2], unpack(found))
local order = {}
for i = 1, #found do order[i] = i end
table.sort(order, function(a, b)
  local x, y = tonumber(scores[a] or -1) or -1, tonumber(scores[b] or -1) or -1
  if x ~= y then return x > y end
  return a < b
end)
local top = {}
for i = 1, math.min(#order, tonumber(ARGV[4])) do top[i] = found[order[i]] end
return top
