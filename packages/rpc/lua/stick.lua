-- Finds the node of a session, or chooses a live one if it has none or its node is dead, and pushes a
-- call into that node's list: one step, so that a hundred callers who find the node dead agree on one
-- new node, and no call goes to a node that the session has left.
-- KEYS: the session's map entry, its epoch, then for each candidate its group key and its request list
-- ARGV: ttl of the map entry in ms, the call up to its epoch and from there on (both empty: no call),
--       then the map value ("group:node") of each candidate, best first
-- Returns: {the map value, its epoch}; {the map value} if that node is not among the candidates;
--          {} if no candidate lives. Only in the first case was the call pushed.
local ttl, before, after = ARGV[1], ARGV[2], ARGV[3]

local function go(candidate, epoch)
  if before ~= '' then redis.call('LPUSH', KEYS[2 + 2 * candidate], before .. epoch .. after) end
  return { ARGV[3 + candidate], epoch }
end

local candidates = (#KEYS - 2) / 2
local mapped = redis.call('GET', KEYS[1])
if mapped then
  local known = false
  for i = 1, candidates do
    if ARGV[3 + i] == mapped then
      known = true
      if redis.call('EXISTS', KEYS[1 + 2 * i]) == 1 then
        redis.call('PEXPIRE', KEYS[1], ttl)
        redis.call('PEXPIRE', KEYS[2], ttl)
        return go(i, redis.call('GET', KEYS[2]) or '0')
      end
    end
  end
  if not known then return { mapped } end
end
for i = 1, candidates do
  if redis.call('EXISTS', KEYS[1 + 2 * i]) == 1 then
    redis.call('SET', KEYS[1], ARGV[3 + i], 'PX', ttl)
    local epoch = tostring(redis.call('INCR', KEYS[2]))
    redis.call('PEXPIRE', KEYS[2], ttl)
    return go(i, epoch)
  end
end
return {}
