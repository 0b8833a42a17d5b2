-- Hands out the oldest messages under a lease. Messages whose lease ended come back first, in their old
-- order; one that came back too often, or whose time is over, does not. A call moves about MOST_BYTES, so that
-- large messages do not hold up Redis: fewer are handed out then.
--
-- KEYS  1 box  2 leases  3 taken  4 tries  5 dead  6 waiters
-- ARGV  1 most messages  2 lease ms  3 most attempts  4 "list token" to wake if there is nothing, or ""
--       5 ms to be woken within  6 most dead letters
-- Returns {ms until a lease ends (-1 none, 0: there may be more behind expired messages), id, attempt,
--          message ...}
local BOX, LEASES, TAKEN, TRIES, DEAD, WAITERS = unpack(KEYS)
local call = redis.call
local AT_ONCE, KEEP_TRIES_MS, MOST_BYTES = 100, 604800000, 1048576
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local want, lease, attempts = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
for _, check in ipairs({ { 'LLEN', BOX }, { 'LLEN', DEAD }, { 'HLEN', TAKEN }, { 'HLEN', TRIES }, { 'ZCARD', WAITERS } }) do
  call(check[1], check[2])
end

local function ownId(body)
  return string.match(body, '^{"id":"([^"]*)","ts":')
end

-- What attempts are counted by. A message of another program has no id of ours; a digest stands for it.
local function nameOf(body)
  return ownId(body) or 'x' .. redis.sha1hex(body)
end

local function isOver(body)
  local expires = string.match(body, '^{"id":"[^"]*","ts":[%d.]+,"expires":(%d+),')
  return expires and tonumber(expires) <= now
end

-- No more come back than are handed out now: those that come back later would be put in front of them.
local back, bytes, cut = {}, 0, false
for _ = 1, want + AT_ONCE do
  cut = bytes >= MOST_BYTES
  local id = not cut and #back < want and call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, 1)[1]
  if not id then break end
  local attempt, body = string.match(call('HGET', TAKEN, id) or '', '^(%d+) (.*)$')
  call('ZREM', LEASES, id)
  call('HDEL', TAKEN, id)
  bytes = bytes + #(body or '')
  if body and tonumber(attempt) >= attempts then
    call('HDEL', TRIES, nameOf(body))
    call('LPUSH', DEAD, body)
    call('LTRIM', DEAD, 0, ARGV[6] - 1)
  elseif body and not isOver(body) then
    back[#back + 1] = body
    call('HSET', TRIES, nameOf(body), attempt)
  elseif body then
    call('HDEL', TRIES, nameOf(body))
  end
end
if #back > 0 then call('PEXPIRE', TRIES, KEEP_TRIES_MS) end
for i = #back, 1, -1 do call('LPUSH', BOX, back[i]) end -- the oldest ends in front
if cut then want = #back end -- the next call goes on with those that come back
bytes = 0

local out = { -1 }
for _ = 1, want + AT_ONCE do
  if #out > want * 3 - 2 or bytes >= MOST_BYTES then break end
  local body = call('LPOP', BOX)
  if not body then break end
  bytes = bytes + #body
  local name = nameOf(body)
  if isOver(body) then
    call('HDEL', TRIES, name)
  else
    -- Equal messages of other programs have one name. The time tells their leases apart, also from that of an
    -- equal message that was handed out before.
    local id = ownId(body)
    if not id or call('ZSCORE', LEASES, id) then id = name .. '+' .. time[1] .. '.' .. time[2] .. '.' .. #out end
    local attempt = (call('HGET', TRIES, name) or 0) + 1
    call('HSET', TAKEN, id, attempt .. ' ' .. body)
    -- The fraction keeps the order. It is never rounded to 0, so that all of them end in the same millisecond.
    call('ZADD', LEASES, now + lease + (#out + 1) / 8192, id)
    out[#out + 1] = id
    out[#out + 1] = tostring(attempt)
    out[#out + 1] = body
  end
end

local first = call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]
if first then out[1] = math.max(1, math.ceil(first - now)) end
if #out == 1 and call('LLEN', BOX) > 0 then
  out[1] = 0
elseif #out == 1 and ARGV[4] ~= '' then
  call('PEXPIRE', WAITERS, 60000) -- first, so that it works without memory
  call('ZADD', WAITERS, now + ARGV[5], ARGV[4])
  call('PEXPIRE', WAITERS, 60000)
end
return out
