-- Deletes everything that is queued under one key.
--
-- The lock stays with its holder: the request under way cannot be cancelled, but it is not sent again, and no
-- other batch of this key overlaps it. state.ghost marks this until the lock ends, so that items pushed
-- meanwhile fire right after it (push.lua, complete.lua).
--
-- KEYS  1-11 the unit  12 paused keys  13 deleted
-- ARGV  1 key  2 ms to remember the deletion
-- Returns {items deleted, how many of them are being sent}
local timer, queue, items, data, locker, overwrite, start, state, singles, replay, replayItems = unpack(KEYS)
local call = redis.call
local known = call('HMGET', state, 'batch', 'idempotent')
local length, waiting = call('LLEN', queue), call('LLEN', replay)
local lock, sending = call('PTTL', locker), 0
if lock ~= -2 then sending = math.min(tonumber(known[1] or nil) or 0, length) end
call('UNLINK', queue, items, data, overwrite, start, state, replay, replayItems)
call('ZREM', timer, ARGV[1])
call('ZREM', singles, ARGV[1])
if lock > 0 then
  call('HSET', state, 'ghost', '1')
  call('PEXPIRE', state, lock)
end
if known[2] then -- a repetition of a deleted push stores its item again
  local time = call('TIME')
  call('SET', KEYS[13], string.format('%d%06d', time[1], time[2]), 'PX', ARGV[2])
end
if string.sub(ARGV[1], 1, 1) == '-' then call('SREM', KEYS[12], ARGV[1]) end -- the key of a single is never used again
return { length + waiting, sending }
