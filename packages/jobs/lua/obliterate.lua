-- Deletes everything a queue has in Redis.
--
-- KEYS  the queue's, all
-- ARGV  1 "1" to delete even while jobs run
-- Returns how many jobs there were, or -1 if jobs run and nothing was deleted.
if ARGV[1] ~= "1" and redis.call("HLEN", ACTIVE) > 0 then return -1 end
local jobs = redis.call("HLEN", JOBS)
if redis.call("SCARD", AWAITED) > 0 then publish("results", "\nremoved") end -- wakes every caller that awaits one
for _, key in ipairs(KEYS) do redis.call("UNLINK", key) end
return jobs
