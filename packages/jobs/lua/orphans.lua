-- Finds the jobs whose parents are in other queues, a page per call. The parents are notified before their
-- children are deleted with the queue.
--
-- KEYS  the queue's, up to OUTBOX, with GONE in place of JOBS
-- ARGV  1 cursor, "0" at first, 2 about how many jobs to read
-- Returns {next cursor or "0", bytes of the jobs read, message JSON ...}, each message as in the outbox.
local page = redis.call("HSCAN", JOBS, ARGV[1], "COUNT", ARGV[2])
local found, bytes = { page[1], "" }, 0
for i = 1, #page[2], 2 do
  local id, o = page[2][i], optionsIn(page[2][i + 1])
  bytes = bytes + #page[2][i + 1]
  -- Includes jobs that have ended: the parent counts the first outcome it receives, and theirs may not be sent yet.
  if o.f and o.q then found[#found + 1] = childMessage(id, o, "r", "") end
end
found[2] = bytes .. ""
return found
