-- Deletes everything a queue has in Redis. Its jobs and its outbox are only renamed: children may be among them whose
-- parents in other queues do not know their outcome. The caller notifies these parents and calls again with "told".
--
-- KEYS  the queue's, all, then GONE (the jobs) and GONEOUTBOX
-- ARGV  1 "1" to delete even while jobs run, "" not to, "told" to delete what was renamed
--       2 token of the call that renamed it
-- Returns how many jobs there were, -1 if jobs run, or -2 if the jobs of another call are still there. If it is negative,
--         nothing was deleted.
local GONE, GONEOUTBOX = KEYS[#KEYS - 1], KEYS[#KEYS]
local owner = redis.call("HGET", GONE, "") -- no job has this id
if ARGV[1] == "told" then
  if owner == ARGV[2] then redis.call("UNLINK", GONE, GONEOUTBOX) end
  return 0
end
if owner == ARGV[2] then return redis.call("HLEN", GONE) - 1 end -- the reply of the first call was lost
if ARGV[1] ~= "1" and redis.call("HLEN", ACTIVE) > 0 then return -1 end
if owner then return -2 end
local jobs, messages = redis.call("HLEN", JOBS), redis.call("HLEN", OUTBOX)
if redis.call("SCARD", AWAITED) > 0 then publish("results", "\nremoved") end -- wakes every caller that awaits one
if jobs > 0 then redis.call("RENAME", JOBS, GONE) end
if messages > 0 then redis.call("RENAME", OUTBOX, GONEOUTBOX) end
if jobs + messages > 0 then redis.call("HSET", GONE, "", ARGV[2]) end
for i = 1, #KEYS - 2 do redis.call("UNLINK", KEYS[i]) end
return jobs
