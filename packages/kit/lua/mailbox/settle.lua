-- Ends or prolongs leases of messages that were handed out.
--
-- KEYS  1 box  2 leases  3 taken  4 tries  5 dead
-- ARGV  1 "done": remove, "back": to the front of the box, "dead": to the dead letters, "extend"
--       2 lease ms, or how many dead letters are kept  3... pairs of id, attempt
-- Returns for each pair 1, or 0 if the lease is another one by now
local BOX, LEASES, TAKEN, TRIES, DEAD = unpack(KEYS)
local call = redis.call
local verb = ARGV[1]
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, check in ipairs({ { 'LLEN', BOX }, { 'LLEN', DEAD }, { 'HLEN', TAKEN }, { 'HLEN', TRIES }, { 'ZCARD', LEASES } }) do
  call(check[1], check[2])
end
local out = {}
for i = 3, #ARGV, 2 do
  local id, attempt = ARGV[i], ARGV[i + 1]
  local body = call('HGET', TAKEN, id)
  local ours = body and string.sub(body, 1, #attempt + 1) == attempt .. ' '
  if ours and verb == 'extend' then
    call('PERSIST', LEASES) -- a write that is allowed without memory; what follows is then as well
    call('ZADD', LEASES, now + ARGV[2], id)
  elseif ours then
    call('ZREM', LEASES, id)
    call('HDEL', TAKEN, id)
    if verb == 'back' then
      call('LPUSH', BOX, string.sub(body, #attempt + 2))
    else
      call('HDEL', TRIES, id)
      if verb == 'dead' then
        call('LPUSH', DEAD, string.sub(body, #attempt + 2))
        call('LTRIM', DEAD, 0, ARGV[2] - 1)
      end
    end
  end
  out[#out + 1] = ours and 1 or 0
end
return out
