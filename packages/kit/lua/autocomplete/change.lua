-- Adds, counts or removes one member of a group, in every place it is found by.
--
-- A score is the base-2 logarithm of a sum in which each use counts half as much after every half-life:
--   log2( 2^(t1/h) + 2^(t2/h) + ... )
-- All sums shrink at the same rate, so their order never changes by itself and nothing has to be decayed.
--
-- KEYS  1 members  2 folded  3 scores  4... top lists, one per prefix of the name
-- ARGV  1 "add", "use", "remove", "index": add what is a member already, or "prune": remove what is none
--       2 member  3 its entry in folded, or ""  4 half-life ms, 0: not ranked
--       5 weight  6 length of a top list
-- Returns 1 if the member is new, or was removed, else 0
local MEMBERS, FOLDED, SCORES = KEYS[1], KEYS[2], KEYS[3]
local call = redis.call
local verb, member, entry, halfLife, weight, cap = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
for i = 1, #KEYS do call('ZCARD', KEYS[i]) end -- a wrong type fails here, before anything is written

if verb == 'prune' and call('ZSCORE', MEMBERS, member) then return 0 end -- added meanwhile
if verb == 'remove' or verb == 'prune' then
  local removed = call('ZREM', MEMBERS, member)
  if entry ~= '' then call('ZREM', FOLDED, entry) end
  for i = 3, #KEYS do call('ZREM', KEYS[i], member) end
  return removed
end

if verb == 'index' and not call('ZSCORE', MEMBERS, member) then return 0 end -- removed meanwhile
local added = call('ZADD', MEMBERS, 0, member)
if entry ~= '' then call('ZADD', FOLDED, 0, entry) end
if halfLife > 0 then
  local known = tonumber(call('ZSCORE', SCORES, member))
  if verb == 'use' or not known then
    local time = call('TIME')
    local use = (time[1] * 1000 + math.floor(time[2] / 1000)) / halfLife + math.log(weight) / math.log(2)
    local top = math.max(known or use, use)
    local sum = known and top + math.log(2 ^ (known - top) + 2 ^ (use - top)) / math.log(2) or use
    local score = string.format('%.17g', sum)
    call('ZADD', SCORES, score, member)
    for i = 4, #KEYS do
      call('ZADD', KEYS[i], score, member)
      call('ZREMRANGEBYRANK', KEYS[i], 0, -cap - 1)
    end
  end
end
return added
