-- Where a job waits: in WAIT, in PRIO if it has a priority, in GROUPED if it has a group. Places count up from
-- the middle of their range. A job that was taken and comes back waits below the middle, ordered by the fence
-- with which it was first taken. So jobs come back in the order in which they were taken, for any worker and any
-- number of returns. The token of a job that is taken from there contains its place ("since/place"). A job without
-- priority and group comes back to PRIO with priority 0, which next.lua takes before WAIT.
local MIDDLE = 2251799813685248 -- 2^51, for 13 hex digits
local HALF = 2147483648 -- 2^31: PRIO has 32 bits for the place

local turn -- the number of the round in which groups are served, read on first use
local function currentTurn()
  turn = turn or tonumber(redis.call("HGET", META, "turn") or 0) or 0
  return turn
end

-- The group and the id in a member of GROUPED; empty for a member that another program wrote.
local function groupAndId(member)
  local nul = string.find(member, "\0", 1, true)
  if not nul then return "", "" end
  return string.sub(member, 1, nul - 1), string.sub(member, nul + 20)
end

local function hasWaiting(group)
  return #redis.call("ZRANGEBYLEX", GROUPED, "[" .. group .. "\0", "(" .. group .. "\1", "LIMIT", 0, 1) > 0
end

-- Returns the group to the round: it may run jobs again.
local function joinRound(group)
  redis.call("ZADD", GROUPS, "NX", currentTurn() + 1, group)
end

-- The place of a job that comes back.
local function placeIn(token)
  local fence, place = string.match(token or "", "^(%d+)@[^@]*@%d+/?(%d*)")
  return tonumber(place) or tonumber(fence) or 0
end

-- Puts a job with a priority or a group where it waits, or a job that comes back to `before`. The caller adds
-- other jobs to WAIT, many at once.
local function placeOrdered(id, o, before)
  if o.g then
    local place = before and before % MIDDLE or MIDDLE + redis.call("HINCRBY", META, "seq", 1)
    local order = string.format("%06x%013x", (o.p or 0) + 1048576, place)
    redis.call("ZADD", GROUPED, 0, o.g .. "\0" .. order .. id)
    redis.call("HSET", PLACES, id, order)
    joinRound(o.g)
  else
    local place = before and before % HALF or HALF + redis.call("HINCRBY", META, "seq", 1) % HALF
    redis.call("ZADD", PRIO, (o.p or 0) * 4294967296 + place, id)
  end
end

-- Entries of WAIT that this call has searched at most. Removing one job searches the whole list if the job is its last.
local searched = 0

-- Takes a waiting job out of its place.
local function unplace(id, o)
  if o.g then
    local order = redis.call("HGET", PLACES, id)
    if order then
      redis.call("HDEL", PLACES, id)
      redis.call("ZREM", GROUPED, o.g .. "\0" .. order .. id)
      if not hasWaiting(o.g) then
        redis.call("ZREM", GROUPS, o.g)
        redis.call("ZREM", CAPPED, o.g)
      end
      return
    end
  end
  if redis.call("ZREM", PRIO, id) == 0 then
    searched = searched + redis.call("LLEN", WAIT)
    redis.call("LREM", WAIT, 1, id)
  end
end

-- Adds to the number of running jobs of the group. A foreign value that is not a number counts as 0.
local function addRunning(group, by)
  local running = redis.pcall("HINCRBY", USAGE, "a" .. group, by)
  if type(running) ~= "number" then
    running = by
    redis.call("HSET", USAGE, "a" .. group, by)
  end
  if running <= 0 then redis.call("HDEL", USAGE, "a" .. group) end
end

-- A job of the group is no longer running.
local function release(group)
  addRunning(group, -1)
  redis.call("ZREM", CAPPED, group)
  if hasWaiting(group) then joinRound(group) end
end
