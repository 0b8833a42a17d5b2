-- The members of a prefix with the highest scores: from its top list, or, if that is short, among the first
-- members of the prefix. A top list is short if it has all there is, or if members of it were removed.
--
-- KEYS  1 members or folded  2 scores  3 top list of the prefix
-- ARGV  1 from  2 to, as ZRANGEBYLEX takes them  3 how many to look at (at most 1000)  4 how many to return
--       5 "1": KEYS[1] has entries "folded NUL member"  6 "1": the prefix has a top list
-- Returns members, highest score first, without the markers of documented searches
local call, MARKER = redis.call, '{%x+%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x+$'
local most = tonumber(ARGV[4])
if ARGV[6] == '1' then
  local top = call('ZREVRANGE', KEYS[3], 0, most - 1)
  if #top == most then return top end
end
local found = {}
for _, entry in ipairs(call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, math.min(tonumber(ARGV[3]), 1000))) do
  local member = ARGV[5] == '1' and string.match(entry, '^[^%z]*%z(.*)$') or entry
  if not string.find(member, MARKER) then found[#found + 1] = member end
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
local best = {}
for i = 1, math.min(#order, most) do best[i] = found[order[i]] end
return best
