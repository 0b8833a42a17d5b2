-- The usual call of a worker: no ended job needs its record read, only plain jobs wait, and there are no
-- listeners, awaiting callers or limits. It comes before the rest of the script to avoid the cost of its setup.
-- Other calls continue below.
--
-- KEYS and ARGV as for next.lua
-- Redis searches a small hash or sorted set from its first entry to its last. With many held jobs this is a
-- third of the work. So a call that takes many jobs makes Redis store ACTIVE and LEASE as tables: one entry of
-- this length converts them, and they stay tables without it until they are empty.
local MANY, LONG = 16, string.rep("\n", 65) -- no job can have this id
-- A call that takes large jobs takes fewer. Records are read FEW at once, and after FEW large ones alone.
local MOST_TAKEN_BYTES, LARGE, FEW = 4194304, 262144, 8
local function steady()
  local done, want = tonumber(ARGV[4]), tonumber(ARGV[3])
  if ARGV[5] ~= "0" then return nil end
  for i = 9, 6 + done * 4, 4 do
    if ARGV[i] ~= "" then return nil end
  end
  local META, JOBS, WAIT, DELAYED, ACTIVE, LEASE, WAKE = KEYS[1], KEYS[2], KEYS[3], KEYS[8], KEYS[9], KEYS[10], KEYS[19]
  local time = redis.call("TIME")
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local set = redis.call("HMGET", META, "listen", "paused", "hold", "conc", "max")
  if set[2] or set[4] or set[5] or (tonumber(set[1] or 0) or 0) > now or (tonumber(set[3] or 0) or now) > now then return nil end
  if redis.call("SCARD", KEYS[18]) + redis.call("ZCARD", KEYS[4]) + redis.call("ZCARD", KEYS[5]) > 0 then return nil end
  local head = redis.call("ZRANGE", DELAYED, 0, 0, "WITHSCORES") -- first: a key of a foreign type must not fail later

  local sign = ARGV[2] .. " " .. ARGV[1]
  redis.call("ZREM", KEYS[21], sign) -- removing something first lets this work while Redis is out of memory

  local refused = {}
  if done > 0 then
    local ids, ended = {}, {}
    for i = 1, done do ids[i] = ARGV[3 + i * 4] end
    local tokens = redis.call("HMGET", ACTIVE, unpack(ids))
    for i = 1, done do
      local fence = ARGV[4 + i * 4]
      if tokens[i] and string.sub(tokens[i], 1, #fence) == fence then
        ended[#ended + 1] = ids[i]
      else
        refused[#refused + 1] = ids[i]
      end
    end
    if #ended > 0 then
      local noted = redis.call("HLEN", KEYS[11]) > 0 -- notes of an attempt that was put back
      -- ACTIVE last: if another key has a foreign type, the worker repeats its call and its jobs are not refused.
      redis.call("HDEL", JOBS, unpack(ended))
      if noted then redis.call("HDEL", KEYS[11], unpack(ended)) end
      redis.call("ZREM", LEASE, unpack(ended))
      redis.call("HDEL", ACTIVE, unpack(ended))
      redis.call("HINCRBY", META, "completed", #ended)
    end
  end

  local taken, first, ids = {}, 0, want > 0 and redis.call("LPOP", WAIT, want) or {}
  local full = false -- whether this call has reached its bytes before its number of jobs
  if #ids > 0 then
    local ok, problem = pcall(function()
      local records, read, bytes, few = {}, 0, 0, 1
      while read < #ids and bytes < MOST_TAKEN_BYTES do
        local before = bytes
        local some = redis.call("HMGET", JOBS, unpack(ids, read + 1, math.min(read + few, #ids)))
        for i = 1, #some do
          records[read + i] = some[i]
          if some[i] then bytes = bytes + #some[i] end
        end
        read = read + #some
        few = bytes - before > LARGE and 1 or FEW
      end
      if read < #ids then
        full = true
        local rest = {}
        for i = #ids, read + 1, -1 do
          rest[#rest + 1] = ids[i]
          ids[i] = nil
        end
        redis.call("LPUSH", WAIT, unpack(rest))
      end
      first = redis.call("HINCRBY", META, "fence", #ids) - #ids
      if first == 0 then first = redis.call("HINCRBY", META, "fence", string.format("%d%06d", time[1], time[2])) - #ids end -- see next.lua
      local tokens, leases, suffix = {}, {}, "@" .. ARGV[1] .. "@" .. now
      local ends = (now + ARGV[2]) .. "" -- a number would be formatted anew for each job
      local n = 0
      for i, id in ipairs(ids) do
        if records[i] then
          n = n + 2
          taken[n - 1], taken[n] = id, records[i]
          tokens[n - 1], tokens[n] = id, string.format("%d%s", first + n / 2, suffix)
          leases[n - 1], leases[n] = ends, id
        end
      end
      local many = n >= MANY * 2
      if many then
        leases[n + 1], leases[n + 2] = ends, LONG
        tokens[n + 1], tokens[n + 2] = LONG, LONG
      end
      if n > 0 then
        redis.call("ZADD", LEASE, unpack(leases))
        redis.call("HSET", ACTIVE, unpack(tokens))
      end
      if many then
        redis.call("ZREM", LEASE, LONG)
        redis.call("HDEL", ACTIVE, LONG)
      end
    end)
    if not ok then -- a key has a foreign type: the jobs wait as before
      redis.pcall("ZREM", LEASE, LONG, unpack(ids))
      for i = #ids, 1, -1 do redis.call("LPUSH", WAIT, ids[i]) end
      error(problem)
    end
  end

  if (want == 0 and done > 0 or want > 0 and (full or #ids == want)) and redis.call("LLEN", WAIT) > 0 then
    redis.pcall("ZADD", WAKE, 0, "0") -- if it has a foreign type, workers that block on it report it
  end
  if #ids < want and not full and ARGV[6] ~= "0" then redis.call("ZADD", KEYS[21], now + ARGV[6], sign) end
  local due = head[2] and math.max(0, math.ceil(head[2] - now)) or -1
  return { refused, due, full and 0 or -1, first, taken }
end

local reply = steady()
if reply then return reply end
