-- Which leases have ended, and when the next one does. Two things that a clock or a foreign hand can leave
-- are put right: a lease that would outlive its time to live, because the clock was set back, ends after
-- that time from now; one that holds paths and is not known, because its end was lost, has ended.
--
-- KEYS  1 leases, 2 held
-- ARGV  1 the maximum number of leases
-- Returns {ms until the next end, or -1 if there is no lease, then leases that have ended}
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local latest = redis.call("ZREVRANGE", KEYS[1], 0, 9, "WITHSCORES")
for n = 1, #latest, 2 do
  local ttl = tonumber(string.match(latest[n], "^(%d+)-") or "0")
  if ttl > 0 and tonumber(latest[n + 1]) > now + ttl + 1000 then
    redis.call("ZREM", KEYS[1], "") -- begins with a command that works without memory
    redis.call("ZADD", KEYS[1], "XX", string.format("%.0f", now + ttl), latest[n])
  end
end
local due = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", string.format("%.0f", now), "LIMIT", 0, tonumber(ARGV[1]))
local first = redis.call("ZRANGE", KEYS[1], 0, 0, "WITHSCORES")
local wait = -1
if first[2] then wait = math.max(0, tonumber(first[2]) - now) end
local listed = {}
for _, lease in ipairs(due) do listed[lease] = true end
for _, member in ipairs(redis.call("ZRANDMEMBER", KEYS[2], 5)) do
  local lease = string.match(member, "^[^ ]+")
  if lease and not listed[lease] and not redis.call("ZSCORE", KEYS[1], lease) then
    listed[lease] = true
    due[#due + 1] = lease
  end
end
table.insert(due, 1, wait)
return due
