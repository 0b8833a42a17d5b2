-- Ends or prolongs leases of messages that were handed out.
--
-- KEYS  1 box  2 leases  3 taken  4 tries  5 dead
-- ARGV  1 "done": remove, "back": to the front of the box, or to the dead letters after the last attempt,
--       "dead": to the dead letters, "undo": to the front of the box, as if it had not been handed out, "extend"
--       2 lease ms  3 most attempts  4 most dead letters  5... pairs of id, attempt
-- Returns for each pair 1, or 0 if the lease is another one by now
local BOX, LEASES, TAKEN, TRIES, DEAD = unpack(KEYS)
local call = redis.call
local KEEP_TRIES_MS = 604800000
local verb, attempts = ARGV[1], tonumber(ARGV[3])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, check in ipairs({ { 'LLEN', BOX }, { 'LLEN', DEAD }, { 'HLEN', TAKEN }, { 'HLEN', TRIES }, { 'ZCARD', LEASES } }) do
  call(check[1], check[2])
end
-- What attempts are counted by, as in take.lua.
local function nameOf(body)
  return string.match(body, '^{"id":"([^"]*)","ts":') or 'x' .. redis.sha1hex(body)
end

local out = {}
for i = 5, #ARGV, 2 do
  local id, attempt = ARGV[i], ARGV[i + 1]
  local body = call('HGET', TAKEN, id)
  local ours = body and string.sub(body, 1, #attempt + 1) == attempt .. ' '
  if ours and verb == 'extend' then
    call('PERSIST', LEASES) -- a write that is allowed without memory; what follows is then as well
    call('ZADD', LEASES, now + ARGV[2], id)
  elseif ours then
    call('ZREM', LEASES, id)
    call('HDEL', TAKEN, id)
    local message = string.sub(body, #attempt + 2)
    local name = nameOf(message)
    if verb == 'undo' then
      call('LPUSH', BOX, message)
      if attempt == '1' then call('HDEL', TRIES, name) else call('HSET', TRIES, name, attempt - 1) end
    elseif verb == 'back' and tonumber(attempt) < attempts then
      call('LPUSH', BOX, message)
      call('HSET', TRIES, name, attempt)
      call('PEXPIRE', TRIES, KEEP_TRIES_MS)
    else
      call('HDEL', TRIES, name)
      if verb ~= 'done' then
        call('LPUSH', DEAD, message)
        call('LTRIM', DEAD, 0, ARGV[4] - 1)
      end
    end
  end
  out[#out + 1] = ours and 1 or 0
end
return out
