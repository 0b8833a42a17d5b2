-- Carries out a transaction: if all conditions hold the first list of operations, else the second. All
-- changes take one revision. Nothing is written before everything has been checked. A transaction that
-- only deletes, or says so, begins with ZREM, so it works without memory.
--
-- KEYS  1 state, 2 index, 3 meta, 4 log, 5 leases, 6 held, then the values' keys
-- ARGV  1 how many changes the log keeps if they are short, 2 a random name in case the store is new
--       3 1 if it is to work without memory, else 0
--       4 P: number of paths, then P paths, in the order of the values' keys
--       L: number of leases, then L leases
--       then three lists, each with its length in front:
--         conditions   path number, create|mod|version|value, = | != | < | >, operand
--         operations   put|delete|get, path number, value, lease number (0: none)
--         operations   for the other case
-- Returns {1 if the conditions held else 0, revision, then for each get {value, meta} or {}}
--         or {-1, lease} if a put names a lease that has ended; nothing was changed.
local STATE, INDEX, META, LOG, LEASES, HELD = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local TYPES = { "hash", "zset", "hash", "stream", "zset", "zset" }
local full = ARGV[3] == "1"
local at = 4
local function take()
  at = at + 1
  return ARGV[at - 1]
end

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- What is there. A value without meta, or meta without a value, is not ours and counts as absent.
local paths, values, metas = tonumber(take()), {}, {}
local names = {}
for i = 1, paths do
  names[i] = take()
  values[i] = redis.call("GET", KEYS[6 + i])
  metas[i] = values[i] and redis.call("HGET", META, names[i])
end
local leaseCount, leases = tonumber(take()), {}
for i = 1, leaseCount do leases[i] = take() end

local function revisions(i)
  if not metas[i] then return 0, 0, 0 end
  local create, mod, version = string.match(metas[i], "^(%d+) (%d+) (%d+)")
  return tonumber(create), tonumber(mod), tonumber(version)
end

local function leaseOf(i)
  return metas[i] and string.match(metas[i], "^%d+ %d+ %d+ (.+)$")
end

local function holds(i, target, is, operand)
  if target == "value" then
    if not metas[i] then return false end
    return (values[i] == operand) == (is == "=")
  end
  local create, mod, version = revisions(i)
  local found = target == "create" and create or target == "mod" and mod or version
  operand = tonumber(operand)
  if is == "=" then return found == operand end
  if is == "!=" then return found ~= operand end
  if is == "<" then return found < operand end
  return found > operand
end

local succeeded = true
for _ = 1, tonumber(take()) do
  local i, target, is, operand = tonumber(take()), take(), take(), take()
  if not holds(i, target, is, operand) then succeeded = false end
end

local function readOperations()
  local list = {}
  for n = 1, tonumber(take()) do
    list[n] = { op = take(), path = tonumber(take()), value = take(), lease = tonumber(take()) }
  end
  return list
end
local yes, no = readOperations(), readOperations()
local chosen = succeeded and yes or no

local changes, puts = false, false
for _, operation in ipairs(chosen) do
  if operation.op == "put" and operation.lease > 0 then
    local lease = leases[operation.lease]
    local ends = redis.call("ZSCORE", LEASES, lease)
    if not ends or tonumber(ends) <= now then return { -1, lease } end
  end
  if operation.op == "put" then puts = true end
  if operation.op == "put" or (operation.op == "delete" and metas[operation.path]) then changes = true end
end
if changes then
  for n = 1, 6 do
    local found = redis.call("TYPE", KEYS[n]).ok
    if found ~= TYPES[n] and found ~= "none" then
      return redis.error_reply("WRONGTYPE " .. KEYS[n] .. " holds a " .. found)
    end
  end
  if full or not puts then redis.call("ZREM", HELD, "") end
end

local revision = tonumber(redis.call("HGET", STATE, "revision") or 0)
if changes then
  -- Revisions keep up with the clock's ms. A server that lost its data, or came back with an older copy,
  -- goes on above every revision it ever gave: none comes twice, and a fencing token never goes back.
  local new = revision == 0
  revision = math.max(revision + 1, now)
  if new then redis.call("HSET", STATE, "id", ARGV[2], "born", string.format("%.0f", revision)) end
  redis.call("HSET", STATE, "revision", string.format("%.0f", revision))
end

-- The log keeps values, so long ones shorten it: it has about 10 KB for each change that it may keep. It
-- always keeps more than one transaction can have.
local LONG, LEAST = 10240, 250
local function most(value)
  local room = math.floor(ARGV[1] * LONG / math.max(LONG, #value))
  return math.min(tonumber(ARGV[1]), math.max(LEAST, room))
end

local nth = 0
local function note(kind, path, value, meta)
  local id = string.format("%.0f-%d", revision, nth)
  nth = nth + 1
  redis.call("XADD", LOG, "MAXLEN", "~", most(value), id, "t", kind, "k", path, "v", value, "m", meta)
end

local function release(i, path)
  local lease = leaseOf(i)
  if lease then redis.call("ZREM", HELD, lease .. " " .. path) end
end

local result = { succeeded and 1 or 0, string.format("%.0f", revision) }
for _, operation in ipairs(chosen) do
  local i = operation.path
  local path = names[i]
  if operation.op == "get" then
    result[#result + 1] = metas[i] and { values[i], metas[i] } or {}
  elseif operation.op == "put" then
    local create, _, version = revisions(i)
    if create == 0 then create = revision end
    local lease = operation.lease > 0 and leases[operation.lease] or ""
    local meta = string.format("%.0f %.0f %.0f %s", create, revision, version + 1, lease)
    release(i, path)
    note("p", path, operation.value, meta)
    redis.call("SET", KEYS[6 + i], operation.value)
    redis.call("HSET", META, path, meta)
    redis.call("ZADD", INDEX, 0, path)
    if lease ~= "" then redis.call("ZADD", HELD, 0, lease .. " " .. path) end
    values[i], metas[i] = operation.value, meta
  elseif metas[i] then
    release(i, path)
    note("d", path, "", string.format("0 %.0f 0 ", revision))
    redis.call("DEL", KEYS[6 + i])
    redis.call("HDEL", META, path)
    redis.call("ZREM", INDEX, path)
    values[i], metas[i] = false, false
  end
end
return result
