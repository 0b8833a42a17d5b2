-- Appends one message to a mailbox, unless it is full, and names a receiver to wake.
--
-- KEYS  1 box  2 leases  3 waiters  4 sends
-- ARGV  1 id  2 sender as JSON, or ""  3 message as JSON  4 ms it lives, 0: no end  5 most messages
--       6 "reject" or "drop-oldest"  7 slot of the sender  8 number of this send
-- Returns {messages there are now, or -1 if it is full, messages dropped, {list, token ...} to wake}
local BOX, LEASES, WAITERS, SENDS = unpack(KEYS)
local call = redis.call
local MOST_DROPS, MOST_SLOTS, KEEP_SLOTS_MS = 1000, 1000, 600000
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local waiting, size, most = call('LLEN', BOX), nil, tonumber(ARGV[5])
size = waiting + call('ZCARD', LEASES)
call('ZCARD', WAITERS) -- a wrong type fails here, before anything is written
if call('HGET', SENDS, ARGV[7]) == ARGV[8] then return { size, 0, {} } end -- the first reply was lost

-- Messages whose time is over make room, as long as they are the oldest.
local dropped = 0
for _ = 1, MOST_DROPS do
  if size < most or waiting == 0 then break end
  local expires = string.match(call('LINDEX', BOX, 0), '^{"id":"[^"]*","ts":[%d.]+,"expires":(%d+),')
  local over = expires and tonumber(expires) <= now
  if not over and ARGV[6] == 'reject' then break end
  call('LPOP', BOX)
  size, waiting, dropped = size - 1, waiting - 1, dropped + 1
end
if size >= most then return { -1, dropped, {} } end

local parts = { '{"id":"', ARGV[1], '","ts":', string.format('%d.%03d', time[1], math.floor(time[2] / 1000)) }
if ARGV[4] ~= '0' then parts[#parts + 1] = string.format(',"expires":%.0f', now + ARGV[4]) end
if ARGV[2] ~= '' then parts[#parts + 1] = ',"sender":' .. ARGV[2] end
parts[#parts + 1] = ',"message":' .. ARGV[3] .. '}'
call('RPUSH', BOX, table.concat(parts))
if call('HLEN', SENDS) >= MOST_SLOTS then call('DEL', SENDS) end -- mostly of processes that ended
call('HSET', SENDS, ARGV[7], ARGV[8])
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
