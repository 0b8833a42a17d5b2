-- Looks at one key without changing it: its state, and a page of its items up to a number of bytes.
--
-- KEYS  1-11 the unit  12 paused keys
-- ARGV  1 key  2 first position  3 maximum of items, 0 none  4 maximum of bytes of all bodies
--       5 maximum of data fields
-- Returns {score or "", items, ms of the lock or -2, flat state, flat data, heads, bodies (the last may
--          be cut), sizes, 1 if it is paused}
local timer, queue, items, data, locker, _, _, state, _, replay, replayItems = unpack(KEYS)
local call = redis.call
local from, most, bytes = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local length, waiting = call('LLEN', queue), call('LLEN', replay)
local fields = {}
if call('HLEN', data) <= tonumber(ARGV[5]) then
  fields = call('HGETALL', data)
else
  fields = call('HSCAN', data, '0', 'COUNT', 100)[2]
end

local heads, bodies, sizes = {}, {}, {}
local list, headList, last = queue, items, length
if from >= length then -- the replayed items are shown last
  list, headList, last, from = replay, replayItems, waiting, from - length
end
for i = from, math.min(from + most, last) - 1 do
  if bytes <= 0 then break end
  local body = call('LINDEX', list, i)
  if not body then break end
  sizes[#sizes + 1] = #body
  heads[#heads + 1] = call('LINDEX', headList, i) or ''
  bodies[#bodies + 1] = #body > bytes and string.sub(body, 1, bytes) or body
  bytes = bytes - #body
end
return { call('ZSCORE', timer, ARGV[1]) or '', length + waiting, call('PTTL', locker),
  call('HGETALL', state), fields, heads, bodies, sizes, call('SISMEMBER', KEYS[12], ARGV[1]) }
