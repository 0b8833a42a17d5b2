-- Finds the node of a session, or maps the session to a live node if it has none, or if its node is dead
-- or does not serve the service. Then pushes a call into that node's list. One step, so that concurrent
-- callers who find the node dead agree on one new node, and no call goes to a node that lost the session.
-- KEYS: the session's map entry, its epoch, the group's epoch, then for each candidate its group key and
--       its request list
-- ARGV: ttl of the map entry in ms, the call before its epoch and after it (both empty: no call),
--       ttl of the request list in ms, a map value that names no node (empty: none), then for each
--       candidate its map value ("group:node") and "1" if it serves the service, best first
-- Returns: {the map value, its epoch}; {the map value} if that node is not among the candidates;
--          {} if no candidate is alive. The call was pushed only in the first case.
local ttl, before, after, listTtl = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local candidates = (#KEYS - 3) / 2

-- Checks the types before the first write.
for i = 1, 3 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'none' and kind ~= 'string' then
    return redis.error_reply('WRONGTYPE the key ' .. KEYS[i] .. ' holds a ' .. kind)
  end
end

local function member(i) return ARGV[4 + 2 * i] end
-- A node whose list has another type is not usable, because the call cannot be pushed there.
local function usable(i)
  local kind = redis.call('TYPE', KEYS[3 + 2 * i]).ok
  if before ~= '' and kind ~= 'none' and kind ~= 'list' then return false end
  return ARGV[5 + 2 * i] == '1' and redis.call('EXISTS', KEYS[2 + 2 * i]) == 1
end

-- Another program may have written any value as an epoch: only values that grow() writes count.
local function epochOf(key)
  local epoch = redis.call('GET', key)
  return epoch and #epoch <= 15 and string.match(epoch, '^%d+$')
end

-- A fencing token only grows, even if Redis has lost its data: it is never less than the clock.
local function grow()
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local last = tonumber(epochOf(KEYS[3]) or 0)
  local epoch = string.format('%.0f', math.max(last + 1, now))
  redis.call('SET', KEYS[3], epoch)
  redis.call('SET', KEYS[2], epoch, 'PX', ttl)
  return epoch
end

local function go(i, epoch)
  if before ~= '' then
    local list = KEYS[3 + 2 * i]
    redis.call('LPUSH', list, before .. epoch .. after)
    if redis.call('PTTL', list) < listTtl then redis.call('PEXPIRE', list, listTtl) end
  end
  return { member(i), epoch }
end

local mapped = redis.call('GET', KEYS[1])
if mapped and mapped ~= ARGV[5] then
  local known = false
  for i = 1, candidates do
    if member(i) == mapped then
      known = true
      if usable(i) then
        local epoch = epochOf(KEYS[2]) or grow()
        redis.call('PEXPIRE', KEYS[1], ttl)
        redis.call('PEXPIRE', KEYS[2], ttl)
        return go(i, epoch)
      end
    end
  end
  if not known then return { mapped } end
end
for i = 1, candidates do
  if usable(i) then
    redis.call('SET', KEYS[1], member(i), 'PX', ttl)
    return go(i, grow())
  end
end
return {}
