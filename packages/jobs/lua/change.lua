-- Changes one job on request.
--
-- KEYS  the queue's, up to OUTBOX
-- ARGV  1 id, 2 verb
--         "remove"  forgets a job that is not running
--         "cancel"  asks the handler of a running job to stop, forgets any other (3 reason)
--         "promote" ends a delay
--         "retry"   runs an ended job again, with all its attempts
--         "update"  changes a job that has not started (3 JSON {p priority, d delay ms | at due ms, j 1 =
--                   with data}, 4 data); with 5 fence "@" the data of the running job that holds it
-- Returns "done", "signalled", "missing", "malformed", or the state that does not allow it.
local id, verb = ARGV[1], ARGV[2]
local problem = wrongType(1, #KEYS)
if problem then return problem end
local record = redis.call("HGET", JOBS, id)
if not record then return "missing" end
local created, attempts, stalls, opts, rest = parse(record)
local o = optionsOf(opts)
if o == NONE then o = {} end -- "update" writes to it
listening = isLater(redis.call("HGET", META, "listen"))

local state, token = "waiting", redis.call("HGET", ACTIVE, id)
if token then
  state = "active"
elseif redis.call("ZSCORE", COMPLETED, id) then
  state = "completed"
elseif redis.call("ZSCORE", FAILED, id) then
  state = "failed"
elseif redis.call("ZSCORE", BLOCKED, id) then
  state = "blocked"
elseif redis.call("ZSCORE", DELAYED, id) then
  state = "delayed"
end
local ended = state == "completed" or state == "failed"

local function leave()
  if state == "waiting" then
    unplace(id, o)
  else
    local sets = { completed = COMPLETED, failed = FAILED, blocked = BLOCKED, delayed = DELAYED }
    redis.call("ZREM", sets[state], id)
  end
end

local function runAt(at)
  redis.call("ZADD", DELAYED, at, id)
  publish("control", "due")
end

local function remove(reason)
  leave()
  discard(id, o, ended, reason)
  if due == 0 then publish("control", "due") end -- its parent may run now
  return "done"
end

local function write(options, tail)
  redis.call("HSET", JOBS, id, created .. ";" .. attempts .. ";" .. stalls .. ";" .. options .. tail)
end

local function withData(data)
  return "\n" .. string.match(rest, "^\n([^\n]*)\n") .. "\n" .. data
end

local function update()
  if not created or (opts ~= "" and not pcall(cjson.decode, opts)) then return "malformed" end
  local how = cjson.decode(ARGV[3])
  local tail = how.j and withData(ARGV[4]) or rest
  if ARGV[5] then
    if not token or string.sub(token, 1, #ARGV[5]) ~= ARGV[5] then return "lost" end
    write(opts, tail)
    return "done"
  end
  if state == "active" or ended then return state end
  local at = how.at or (how.d and now + how.d)
  if at and state == "blocked" then return state end -- it waits for its children, not for a time
  if not how.p or how.p == (o.p or 0) then -- it keeps its place
    write(opts, tail)
  else
    if state == "waiting" then unplace(id, o) end
    local options = opts == "" and {} or cjson.decode(opts)
    options.p = how.p ~= 0 and how.p or nil
    o.p = options.p
    write(next(options) ~= nil and cjson.encode(options) or "", tail)
    if state == "waiting" then
      if o.g or o.p then placeOrdered(id, o, false) else redis.call("RPUSH", WAIT, id) end
    end
  end
  if at then
    if state == "waiting" and at > now then unplace(id, o) end
    if state == "delayed" or at > now then runAt(math.max(now, at)) end
  end
  return "done"
end

-- Removing something first lets this script work while Redis is out of memory. An update of a waiting job is
-- excluded, because it can need more memory.
if verb ~= "update" or ARGV[5] then redis.call("HDEL", META, "") end

if verb == "remove" then
  if state == "active" then return state end
  return remove()
elseif verb == "cancel" then
  if ended then return state end
  if state ~= "active" then return remove(ARGV[3]) end
  -- The mark is part of the token: it ends with this attempt and cannot affect a later one.
  if not string.find(token, "^%d+@[^@]*@[%d/]+@") then redis.call("HSET", ACTIVE, id, token .. "@" .. ARGV[3]) end
  publish("control", "cancel " .. id)
  return "signalled"
elseif verb == "promote" then
  if state ~= "delayed" then return state end
  runAt(now)
  return "done"
elseif verb == "retry" then
  if not ended then return state end
  leave()
  redis.call("ZREM", TIMERS, "j" .. id, "w" .. id)
  if created then redis.call("HSET", JOBS, id, created .. ";0;0;" .. opts .. rest) end
  if o.n then redis.call("HDEL", CHILDREN, "x" .. familyOf(o.y, id)) end -- an earlier failed child no longer counts
  if o.d then redis.call("HSETNX", DEDUPE, o.d, "0:" .. id) end -- the job holds its key again, if the key is free
  runAt(now)
  return "done"
elseif verb == "update" then
  return update()
end
return redis.error_reply("unknown verb " .. verb)
