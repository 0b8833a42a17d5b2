-- Reads one key without changing it: its state, and a page of its items up to a number of bytes.
--
-- KEYS  1-11 the unit  12 paused keys
-- ARGV  1 key  2 first position  3 maximum of items, 0 none  4 maximum of bytes of all bodies
--       5 maximum of data fields  6 maximum of bytes of the data; fields beyond it are left out
-- Returns {score or "", items, ms of the lock or -2, flat state, flat data (none without items), heads,
--          bodies (the last may be cut), sizes, 1 if it is paused}
local timer, queue, items, data, locker, _, _, state, _, replay, replayItems = unpack(KEYS)
local call = redis.call
local from, most, bytes = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local length, waiting = call('LLEN', queue), call('LLEN', replay)
local fields, room, names = {}, tonumber(ARGV[6]), {}
if most > 0 then
  names = call('HLEN', data) <= tonumber(ARGV[5]) and call('HKEYS', data) or call('HRANDFIELD', data, 100)
end
for i = 1, #names do
  local size = #names[i] + call('HSTRLEN', data, names[i])
  if size <= room then
    fields[#fields + 1], fields[#fields + 2] = names[i], call('HGET', data, names[i])
    room = room - size
  end
end
local known, flat = call('HMGET', state, 'batch', 'attempts', 'error'), {}
for i, name in ipairs({ 'batch', 'attempts', 'error' }) do
  if known[i] then flat[#flat + 1], flat[#flat + 2] = name, string.sub(known[i], 1, 1000) end
end

local heads, bodies, sizes = {}, {}, {}
local list, headList, last = queue, items, length
if from >= length then -- the replayed items are shown last
  list, headList, last, from = replay, replayItems, waiting, from - length
end
-- Reading by position in a long list is slow. So a hundred heads are read at a time, and with them as many bodies
-- as the sizes in the heads allow. A body of unknown size is read alone.
local i, stop = from, math.min(from + most, last)
while i < stop and bytes > 0 do
  local some = call('LRANGE', headList, i, math.min(i + 100, stop) - 1)
  local sum, fit = 0, 0
  for n = 1, #some do
    local size = tonumber(string.match(some[n], '^%S+ %S+ (%d+) ') or nil)
    if not size or sum + size > bytes then break end
    sum, fit = sum + size, n
  end
  local found = call('LRANGE', list, i, i + math.max(fit, 1) - 1)
  if #found == 0 then break end
  for n = 1, #found do
    local body = found[n]
    sizes[#sizes + 1] = #body
    heads[#heads + 1] = some[n] or ''
    bodies[#bodies + 1] = #body > bytes and string.sub(body, 1, math.max(bytes, 0)) or body
    bytes = bytes - #body
  end
  i = i + #found
end
return { call('ZSCORE', timer, ARGV[1]) or '', length + waiting, call('PTTL', locker),
  flat, fields, heads, bodies, sizes, call('SISMEMBER', KEYS[12], ARGV[1]) }
