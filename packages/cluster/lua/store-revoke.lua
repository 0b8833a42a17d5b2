-- Ends a lease, a part of its keys at a time: deletes the paths named that still belong to it, as one
-- revision, and the lease itself when it holds none any more. Begins with ZREM, so leases end also without
-- memory.
--
-- KEYS  1 state, 2 index, 3 meta, 4 log, 5 leases, 6 held, then the values' keys
-- ARGV  1 how many changes the log keeps, 2 the lease, 3 "due": only if it has ended, "now": in any case
--       then the paths, in the order of the values' keys (at most 200)
-- Returns 0 if the lease has not ended, 1 if it is gone, 2 if more paths are held
local STATE, INDEX, META, LOG, LEASES, HELD = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local TYPES = { "hash", "zset", "hash", "stream", "zset", "zset" }
local lease, mode = ARGV[2], ARGV[3]
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = redis.call("ZSCORE", LEASES, lease)
if ends and mode == "due" and tonumber(ends) > now then return 0 end

for n = 1, 6 do
  local found = redis.call("TYPE", KEYS[n]).ok
  if found ~= TYPES[n] and found ~= "none" then
    return redis.error_reply("WRONGTYPE " .. KEYS[n] .. " holds a " .. found)
  end
end
redis.call("ZREM", HELD, "")

-- From here on the lease cannot be renewed, also if this takes several calls.
if mode == "now" then redis.call("ZADD", LEASES, "XX", 0, lease) end

local mine = {}
for i = 4, #ARGV do
  local meta = redis.call("HGET", META, ARGV[i])
  local owner = meta and string.match(meta, "^%d+ %d+ %d+ (.*)$")
  if owner == lease then mine[#mine + 1] = i end
end
if #mine > 0 then
  local revision = math.max(tonumber(redis.call("HGET", STATE, "revision") or 0) + 1, now)
  redis.call("HSET", STATE, "revision", string.format("%.0f", revision))
  for n, i in ipairs(mine) do
    local id = string.format("%.0f-%d", revision, n - 1)
    local meta = string.format("0 %.0f 0 ", revision)
    redis.call("XADD", LOG, "MAXLEN", "~", ARGV[1], id, "t", "d", "k", ARGV[i], "v", "", "m", meta)
    redis.call("DEL", KEYS[3 + i])
    redis.call("HDEL", META, ARGV[i])
    redis.call("ZREM", INDEX, ARGV[i])
  end
end
for i = 4, #ARGV do redis.call("ZREM", HELD, lease .. " " .. ARGV[i]) end
if #redis.call("ZRANGE", HELD, "[" .. lease .. " ", "(" .. lease .. "!", "BYLEX", "LIMIT", 0, 1) > 0 then return 2 end
redis.call("ZREM", LEASES, lease)
return 1
