-- Writes, pauses and advances one schedule. push.lua pushes its runs and advances it in the same script, so
-- that each run is pushed once, even if callers fail.
--
--   active --- pause ---> paused --- resume ---> active        active --- its last run ---> ended
--
-- Only an active schedule has a finite time in KEYS 1.
--
-- KEYS  1 schedules  2 schedule
-- ARGV  1 id  2 channel  3 verb
--       "set"     4 next due ms  5 JSON  6 its times, as one string  7 revision  8 maximum of schedules
--                 If its times are unchanged, it continues as before: paused stays paused, ended
--                 stays ended, and a run that is overdue stays due.
--       "remove"
--       "pause"
--       "resume"  4 next due ms, or "inf" if it has ended
--       "move"    4 due ms as seen  5 next due ms or "inf"  6 "" or its new state  7 why: the run is
--                 skipped or tried again
-- Returns 1, 0 if there was nothing to do, or -1 if the maximum of schedules is reached
local call, id, verb = redis.call, ARGV[1], ARGV[3]
local planned = call('ZSCORE', KEYS[1], id)
local known = redis.pcall('HMGET', KEYS[2], 'times', 'state')
if known.err then -- a foreign value: it is only removed from the plan, where it would be due for ever
  if verb == 'move' then return call('ZADD', KEYS[1], 'XX', 'CH', 'inf', id) end
  if verb ~= 'remove' then return known end
end

if verb == 'set' then
  if not planned and call('ZCARD', KEYS[1]) >= tonumber(ARGV[8]) then return -1 end
  local same = planned and known[1] == ARGV[6]
  call('HSET', KEYS[2], 'schedule', ARGV[5], 'times', ARGV[6], 'revision', ARGV[7])
  if not same then
    call('HDEL', KEYS[2], 'runs', 'last', 'error')
    if known[2] ~= 'paused' then call('HDEL', KEYS[2], 'state') end
    call('ZADD', KEYS[1], known[2] == 'paused' and 'inf' or ARGV[4], id)
  end
elseif verb == 'remove' then
  call('UNLINK', KEYS[2])
  if call('ZREM', KEYS[1], id) == 0 then return 0 end
elseif verb == 'pause' then
  if not planned then return 0 end
  if not known[2] then
    call('HSET', KEYS[2], 'state', 'paused')
    call('ZADD', KEYS[1], 'inf', id)
  end
elseif verb == 'resume' then
  if not planned then return 0 end
  if known[2] == 'paused' then
    call('HDEL', KEYS[2], 'state')
    if ARGV[4] == 'inf' then call('HSET', KEYS[2], 'state', 'ended') end
    call('ZADD', KEYS[1], ARGV[4], id)
  end
else
  if not planned or tonumber(planned) ~= tonumber(ARGV[4]) then return 0 end
  call('HDEL', KEYS[2], '') -- allows the later writes, as in get.lua
  call('ZADD', KEYS[1], ARGV[5], id)
  call('HSET', KEYS[2], 'error', ARGV[7])
  if ARGV[6] ~= '' then call('HSET', KEYS[2], 'state', ARGV[6]) end
end
redis.pcall('PUBLISH', ARGV[2], 'change') -- a user without rights on channels sees the change later
return 1
