-- Adds children to a running job; only its holder may. A repeated call changes nothing.
--
-- KEYS  the queue's, up to OUTBOX
-- ARGV  1 parent id, 2 fence "@", 3 token of the flow, 4 how many children the parent has, then for each
--       child, as for add.lua: id, its place, the record without its first field
-- Returns 1, 0 if the parent is not held with this fence, or the id of a job that exists already. Unless it is 1,
--         nothing was added.
local parent, fence, flow, before = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local FIRST = 5
local added = (#ARGV - FIRST + 1) / 3
local problem = wrongType(1, #KEYS)
if problem then return problem end
local token = redis.call("HGET", ACTIVE, parent)
if not token or string.sub(token, 1, #fence) ~= fence then return 0 end
local created, attempts, stalls, opts, rest = parse(redis.call("HGET", JOBS, parent))
if not created then return 0 end
local options = opts == "" and {} or cjson.decode(opts)
if count(options.n, before + added, 10000) then return 1 end -- the reply of the first call was lost
listening = isLater(redis.call("HGET", META, "listen"))

local hows, messages, left = {}, {}, {} -- left: ended jobs of an earlier flow with the same ids
for i = 0, added - 1 do
  local id, where = ARGV[FIRST + i * 3], ARGV[FIRST + 1 + i * 3]
  local message = messageIn(where)
  if message then
    messages[#messages + 1] = message
  else
    hows[i] = where == "" and NONE or cjson.decode(where)
  end
  local there = not message and redis.call("HGET", JOBS, id)
  if there then
    if not isEarlierLife(id, there, ARGV[FIRST + 2 + i * 3]) then return id end
    left[#left + 1] = id
  end
end
for _, id in ipairs(left) do forgetEnded(id) end

options.n, options.y = before + added, flow
redis.call("HSET", JOBS, parent, created .. ";" .. attempts .. ";" .. stalls .. ";" .. cjson.encode(options) .. rest)
redis.call("HINCRBY", CHILDREN, "n" .. familyOf(flow, parent), added)
if #messages > 0 then post(messages) end
local fields, tail = {}, {} -- new records; ids for the end of the list
local function flush()
  if #fields > 0 then redis.call("HSET", JOBS, unpack(fields)) end
  if #tail > 0 then redis.call("RPUSH", WAIT, unpack(tail)) end
  fields, tail = {}, {}
end
for i = 0, added - 1 do
  local id, how = ARGV[FIRST + i * 3], hows[i]
  if how then
    fields[#fields + 1] = id
    fields[#fields + 1] = now .. ARGV[FIRST + 2 + i * 3]
    if how.w then redis.call("SADD", AWAITED, id) end
    local at = how.at or (how.d and now + how.d) or 0
    if at > now then
      redis.call("ZADD", DELAYED, at, id)
    elseif how.g or how.p then
      placeOrdered(id, how, false)
    elseif how.l then
      redis.call("LPUSH", WAIT, id)
    else
      tail[#tail + 1] = id
    end
    if listening then emit("added", id, string.match(ARGV[FIRST + 2 + i * 3], "^[^\n]*\n([^\n]*)\n")) end
    if #fields >= CHUNK then flush() end
  end
end
flush()
redis.call("ZADD", WAKE, 0, "0")
publish("control", "due")
return 1
