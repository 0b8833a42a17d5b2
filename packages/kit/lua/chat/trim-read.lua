-- Shared: removes messages that all members have read, oldest first, about 1 MiB of them or 1,000: removing
-- more would hold up Redis. Returns 1 if there are more of them.
local function trimRead(members, msgs)
  local call = redis.call
  local slowest = tonumber(call('ZRANGE', members, 0, 0, 'WITHSCORES')[2])
  local count, bytes, more = 0, 0, 1
  while slowest and count < 1000 and bytes < 1048576 do
    local oldest = call('ZRANGE', msgs, count, count, 'WITHSCORES')
    more = oldest[1] and tonumber(oldest[2]) <= slowest and 1 or 0
    if more == 0 then break end
    count, bytes = count + 1, bytes + #oldest[1]
  end
  if count > 0 then call('ZREMRANGEBYRANK', msgs, 0, count - 1) end
  return slowest and more or 0
end
