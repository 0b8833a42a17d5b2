-- How many jobs are in each state, how old the first one is, and what was counted since the beginning.
--
-- KEYS  the queue's, in the order of keys.ts
-- Returns {waiting, delayed, active, blocked, completed, failed, ms the first has waited or -1,
--          {counter, value ...}}.
local META, JOBS, WAIT, PRIO, _, GROUPED, _, DELAYED, ACTIVE, _, _, COMPLETED, FAILED, _, BLOCKED = unpack(KEYS)
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local waiting = redis.call("LLEN", WAIT) + redis.call("ZCARD", PRIO) + redis.call("ZCARD", GROUPED)

local first = redis.call("LINDEX", WAIT, 0) or redis.call("ZRANGE", PRIO, 0, 0)[1]
local created = first and string.match(redis.call("HGET", JOBS, first) or "", "^(%d+)")
return {
  waiting,
  redis.call("ZCARD", DELAYED),
  redis.call("HLEN", ACTIVE),
  redis.call("ZCARD", BLOCKED),
  redis.call("ZCARD", COMPLETED),
  redis.call("ZCARD", FAILED),
  created and now - created or -1,
  redis.call("HGETALL", META),
}
