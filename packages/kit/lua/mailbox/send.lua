-- Appends one message to a mailbox, unless it is full, and names a receiver to wake.
--
-- KEYS  1 box  2 leases  3 waiters  4 sends  5 tries
-- ARGV  1 id  2 sender as JSON, or ""  3 message as JSON  4 ms it lives, 0: no end  5 most messages
--       6 "reject" or "drop-oldest"  7 slot of the sender  8 number of this send
-- Returns {messages there are now, or -1 if it is full, messages dropped, {list, token ...} to wake}
local BOX, LEASES, WAITERS, SENDS, TRIES = unpack(KEYS)
local call = redis.call
local MOST_DROPS, MOST_BYTES, MANY_SLOTS, KEEP_SLOTS_MS = 100, 1048576, 1000, 600000
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local waiting, taken, most = call('LLEN', BOX), call('ZCARD', LEASES), tonumber(ARGV[5])
call('ZCARD', WAITERS)
call('HLEN', TRIES) -- a wrong type fails here, before anything is written
local known = string.match(call('HGET', SENDS, ARGV[7]) or '', '^%d+')
-- The first reply was lost, or this is an early run of a send that is over: numbers of a slot only rise.
if known and tonumber(known) >= tonumber(ARGV[8]) then return { waiting + taken, 0, {} } end

-- The oldest make room: all of them, or those whose time is over. A call does not do much: if far too many are
-- there, for example because others allow more, the box becomes smaller with every message, so two may go at any size.
-- What is dropped needs no count of attempts any more (names as in take.lua).
local surplus, dropped, bytes = waiting + taken - most + 1, 0, 0
local reject = ARGV[6] == 'reject'
local drops = (reject or taken < most) and math.min(surplus, waiting, MOST_DROPS) or 0
while dropped < drops and (bytes < MOST_BYTES or dropped < 2) do
  local oldest = call('LINDEX', BOX, 0)
  local expires = string.match(oldest, '^{"id":"[^"]*","ts":[%d.]+,"expires":(%d+),')
  if reject and (not expires or tonumber(expires) > now) then break end
  call('LPOP', BOX)
  call('HDEL', TRIES, string.match(oldest, '^{"id":"([^"]*)","ts":') or 'x' .. redis.sha1hex(oldest))
  dropped, bytes = dropped + 1, bytes + #oldest
end
local size = waiting + taken - dropped
if size >= most and (reject or taken >= most) then return { -1, dropped, {} } end

local parts = { '{"id":"', ARGV[1], '","ts":', string.format('%d.%03d', time[1], math.floor(time[2] / 1000)) }
if ARGV[4] ~= '0' then parts[#parts + 1] = string.format(',"expires":%.0f', now + ARGV[4]) end
if ARGV[2] ~= '' then parts[#parts + 1] = ',"sender":' .. ARGV[2] end
parts[#parts + 1] = ',"message":' .. ARGV[3] .. '}'
call('RPUSH', BOX, table.concat(parts))
if call('HLEN', SENDS) >= MANY_SLOTS then -- look for some of processes that ended
  local some = call('HRANDFIELD', SENDS, 10, 'WITHVALUES')
  for i = 1, #some, 2 do
    local used = tonumber(string.match(some[i + 1], ' (%d+)$') or 0)
    if used + KEEP_SLOTS_MS < now then call('HDEL', SENDS, some[i]) end
  end
end
call('HSET', SENDS, ARGV[7], string.format('%s %.0f', ARGV[8], now))
call('PEXPIRE', SENDS, KEEP_SLOTS_MS)

local wakes = {}
for _ = 1, 100 do
  local first = call('ZPOPMIN', WAITERS)
  if not first[1] then break end
  if tonumber(first[2]) > now then
    local list, token = string.match(first[1], '^(.*) (%S+)$')
    wakes = { list, token }
    break
  end
end
return { size + 1, dropped, wakes }
