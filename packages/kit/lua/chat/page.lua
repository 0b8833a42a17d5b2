-- Messages of a room in one direction, about MOST_BYTES of them: more would hold up Redis.
--
-- KEYS  1 msgs
-- ARGV  1 "after" or "before"  2 the id that they come after or before  3 most messages
-- Returns {1 if there are more, message, id ...}
local call = redis.call
local MOST_BYTES = 1048576
local after, most = ARGV[1] == 'after', tonumber(ARGV[3])
local byScore, byRank, rankOf, open = 'ZRANGEBYSCORE', 'ZRANGE', 'ZRANK', '+inf'
if not after then byScore, byRank, rankOf, open = 'ZREVRANGEBYSCORE', 'ZREVRANGE', 'ZREVRANK', '-inf' end
local first = call(byScore, KEYS[1], '(' .. ARGV[2], open, 'LIMIT', 0, 1)[1]
local out, bytes = { 0 }, 0
if not first then return out end
local rank = call(rankOf, KEYS[1], first)
for i = 0, most - 1 do
  local found = call(byRank, KEYS[1], rank + i, rank + i, 'WITHSCORES')
  if not found[1] then return out end
  out[#out + 1] = found[1]
  out[#out + 1] = found[2]
  bytes = bytes + #found[1]
  if bytes >= MOST_BYTES then break end
end
out[1] = 1
return out
