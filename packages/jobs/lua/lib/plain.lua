-- The path of most adds: one job without options, sent for the first time, while no listener needs events. It
-- comes before the rest of the script to avoid the cost of its setup. Other calls continue below.
--
-- KEYS and ARGV as for add.lua
-- Redis hashes every string that a script makes, from its first byte to its last. So a record that already has
-- the right time is stored as it came; prepending the time would make a second string of it.
local LATE = 100 -- ms that a record may take from its producer to this script
local misdated = false -- whether the time of a record is not that of Redis

local function dated(record, now, stamp)
  local given = string.match(record, "^(%d*);")
  local at = tonumber(given)
  if at and at <= now and now - at <= LATE then return record end
  if not at then return stamp .. record end
  misdated = true
  return stamp .. string.sub(record, #given + 1)
end

if #ARGV == 7 and ARGV[6] == "" and ARGV[3] == "" then
  local META, JOBS = KEYS[1], KEYS[2]
  local time = redis.call("TIME")
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local set = redis.call("HMGET", META, "listen", "paused", "hold", "conc", "max")
  if (tonumber(set[1] or 0) or 0) <= now then
    local id, record = ARGV[5], dated(ARGV[7], now, now .. "")
    if redis.call("HSETNX", JOBS, id, record) == 0 then
      redis.call("HSET", KEYS[25], ARGV[1], ARGV[2] .. "@" .. now .. " " .. cjson.encode({ 0, id, "exists" }))
      return { 0, id, "exists" }
    end
    local ok, problem = pcall(function()
      redis.call("HSET", KEYS[25], ARGV[1], ARGV[2] .. "@" .. now)
      -- An idle worker is handed the job if no other job, limit or pause comes first.
      local idle = redis.call("ZRANGE", KEYS[21], -1, -1, "WITHSCORES")
      if idle[2]
        and tonumber(idle[2]) > now
        and not (set[2] or set[4] or set[5])
        and (tonumber(set[3] or 0) or 0) <= now
        and redis.call("LLEN", KEYS[3]) + redis.call("ZCARD", KEYS[4]) + redis.call("ZCARD", KEYS[5]) == 0
      then
        redis.call("ZREM", KEYS[21], idle[1])
        local fence = redis.call("HINCRBY", META, "fence", 1)
        if fence == 1 then fence = redis.call("HINCRBY", META, "fence", string.format("%d%06d", time[1], time[2])) end -- see next.lua
        local token = string.format("%d@handover@%d", fence, now)
        redis.call("HSET", KEYS[9], id, token)
        redis.call("ZADD", KEYS[10], now + 1000, id)
        redis.call("ZADD", KEYS[19], -1, token .. "\n" .. id .. "\n" .. record)
      else
        redis.call("RPUSH", KEYS[3], id)
        redis.call("ZADD", KEYS[19], 0, "0")
      end
    end)
    if not ok then -- a key has a foreign type: everything of the job is removed
      redis.call("HDEL", JOBS, id)
      redis.pcall("HDEL", KEYS[25], ARGV[1])
      redis.pcall("LREM", KEYS[3], -1, id)
      redis.pcall("HDEL", KEYS[9], id)
      redis.pcall("ZREM", KEYS[10], id)
      error(problem)
    end
    return misdated and { -1, now, "time" } or 1
  end
end
