-- The number of jobs in each state, the age of the first waiting job, and the totals since the queue was created.
--
-- KEYS  the queue's, up to OUTBOX
-- Returns {waiting, delayed, active, blocked, completed, failed, ms the first job has waited or -1, paused or
--          nil, total completed, failed, retried, stalled}.
local waiting = redis.call("LLEN", WAIT) + redis.call("ZCARD", PRIO) + redis.call("ZCARD", GROUPED)
local ordered = redis.call("ZRANGE", PRIO, 0, 0, "WITHSCORES")
local first = ordered[1]
if not first or tonumber(ordered[2]) >= HALF then first = redis.call("LINDEX", WAIT, 0) or first end
if not first then
  local member = redis.call("ZRANGE", GROUPED, 0, 0)[1]
  if member then first = select(2, groupAndId(member)) end
end
local created = first and parse(redis.call("HGET", JOBS, first))
local totals = redis.call("HMGET", META, "paused", "completed", "failed", "retried", "stalled")
return {
  waiting,
  redis.call("ZCARD", DELAYED),
  redis.call("HLEN", ACTIVE),
  redis.call("ZCARD", BLOCKED),
  redis.call("ZCARD", COMPLETED),
  redis.call("ZCARD", FAILED),
  created and math.max(0, now - created) or -1,
  totals[1],
  totals[2] or 0,
  totals[3] or 0,
  totals[4] or 0,
  totals[5] or 0,
}
