-- The start of every script of a queue: its keys (in the order of keys.ts), the time, and the parser of
-- records. Scripts that are called with fewer keys have nil for the rest.
local META, JOBS, WAIT, PRIO, GROUPS, GROUPED, USAGE, DELAYED, ACTIVE, LEASE, NOTES, COMPLETED, FAILED, CHILDREN, BLOCKED, DEDUPE, TIMERS, AWAITED, WAKE, EVENTS, IDLE, PLACES, CAPPED, OUTBOX, ADDS, HISTORY, WORKERS, SCHEDULES, PLAN =
  unpack(KEYS)
local CHUNK = 500 -- maximum of values that Lua unpacks at once
local MOST_BYTES = 4194304 -- maximum of record bytes that one call reads, plus a last record

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local listening = false -- set by scripts that write events
local due = -1 -- ms until move.lua has something to do

-- Whether a stored time is in the future. Another program may have written anything there: a value that is not a
-- number counts as past.
local function isLater(at)
  return (tonumber(at or 0) or 0) > now
end

-- The names of the channels are derived from the keys. A user without rights on channels must not fail half way.
local function publish(channel, message)
  redis.pcall("PUBLISH", string.sub(META, 1, -5) .. channel, message)
end

local function bringForward(ms)
  if due < 0 or ms < due then due = math.max(0, ms) end
end

-- The pattern must not match the data too, because it would scan them one character at a time.
local HEAD = "^(%d+);(%d+);(%d+);([^\n]*)()"

local function parse(record)
  local created, attempts, stalls, opts, ends = string.match(record or "", HEAD)
  if not created then return nil end
  return created, tonumber(attempts), tonumber(stalls), opts, string.sub(record, ends)
end

local function count(value, least, most)
  return type(value) == "number" and value >= least and value <= most and value % 1 == 0
end

-- The options in a record. Another program may have written anything there: an option of the wrong type
-- counts as not given, so that a malformed job cannot stop the others.
local NONE = {}
local function optionsOf(text)
  if not text or text == "" then return NONE end
  local ok, o = pcall(cjson.decode, text)
  if not ok or type(o) ~= "table" then return NONE end
  if type(o.g) ~= "string" then o.g = nil end
  if not count(o.p, -1048575, 1048575) or o.p == 0 then o.p = nil end
  if type(o.d) ~= "string" then o.d = nil end
  if type(o.f) ~= "string" then o.f = nil end
  if type(o.q) ~= "string" then o.q = nil end
  if type(o.y) ~= "string" then o.y = nil end
  if not count(o.n, 1, 10000) then o.n = nil end
  if not count(o.c, 1, 2) then o.c = nil end
  if type(o.k) ~= "table" then o.k = nil end
  for i = 1, 4 do
    if o.k and not count(o.k[i], -1, 1e13) then o.k = nil end
  end
  return o
end

-- The suffix of the fields of a job's family in CHILDREN. It contains the flow's token, so that jobs left by an
-- earlier job with the same id do not count as children of this one.
local function familyOf(flow, id)
  return flow and flow .. ":" .. id or id
end

local function optionsIn(record)
  local _, _, _, opts = string.match(record or "", HEAD)
  return optionsOf(opts)
end

-- The outbox message that carries a child of a flow to another queue.
local function messageIn(where)
  return string.sub(where, 1, 1) == "o" and string.sub(where, 2)
end

-- The number before those of the next `n` messages in the outbox. In a new queue they start at the time in
-- microseconds: a process that delivered messages of a queue of this name that was deleted removes them by number.
local function numbersOf(n)
  local last = redis.call("HINCRBY", META, "outbox", n)
  if last == n then last = redis.call("HINCRBY", META, "outbox", string.format("%d%06d", time[1], time[2])) end
  return last - n
end

-- Puts messages for other queues into the outbox, many at once, each with the time.
local function post(messages)
  local number = numbersOf(#messages)
  for first = 1, #messages, CHUNK do
    local fields = {}
    for i = first, math.min(first + CHUNK - 1, #messages) do
      fields[#fields + 1] = string.format("%d", number + i)
      fields[#fields + 1] = '{"at":' .. now .. "," .. string.sub(messages[i], 2)
    end
    redis.call("HSET", OUTBOX, unpack(fields))
  end
  bringForward(0)
end

-- Writes an event while there are listeners. A long value is left out: the stream is bounded in bytes too.
local function emit(event, id, name, field, value)
  if not listening then return end
  name = name or string.match(redis.call("HGET", JOBS, id) or "", "^[^\n]*\n([^\n]*)\n") or ""
  if not field then
    redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", event, "id", id, "name", name)
  elseif #value > 4096 then
    redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", event, "id", id, "name", name, "cut", #value)
  else
    redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", event, "id", id, "name", name, field, value)
  end
end
