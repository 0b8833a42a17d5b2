-- Adds children to a running job; only its holder may. Their ids are the parent's id, a slash and a place.
--
-- KEYS  the queue's, up to OUTBOX
-- ARGV  1 parent id, 2 fence "@", 3 JSON name of the parent's queue, then for each child: where it goes (as
--       for add.lua), the record without its first field
-- Returns 0 if the parent is not held with this fence, else the place of the first child plus 1.
local parent, fence = ARGV[1], ARGV[2]
local token = redis.call("HGET", ACTIVE, parent)
if not token or string.sub(token, 1, #fence) ~= fence then return 0 end
local created, attempts, stalls, opts, rest = parse(redis.call("HGET", JOBS, parent))
if not created then return 0 end
listening = tonumber(redis.call("HGET", META, "listen") or 0) > now

local options = opts == "" and {} or cjson.decode(opts)
local before = count(options.n, 1, 10000) and options.n or 0
local added = (#ARGV - 3) / 2
options.n = before + added
redis.call("HSET", JOBS, parent, created .. ";" .. attempts .. ";" .. stalls .. ";" .. cjson.encode(options) .. rest)
redis.call("HINCRBY", CHILDREN, "n" .. parent, added)
for i = 0, added - 1 do
  local id = parent .. "/" .. (before + i)
  local where, record = ARGV[4 + i * 2], ARGV[5 + i * 2]
  local how = where == "" and {} or cjson.decode(where)
  if how.o then
    local message = cjson.decode(how.o)
    message.id = id
    redis.call("HSET", OUTBOX, redis.call("HINCRBY", META, "outbox", 1), cjson.encode(message))
  else
    redis.call("HSET", JOBS, id, now .. record)
    local at = how.at or (how.d and now + how.d) or 0
    if at > now then
      redis.call("ZADD", DELAYED, at, id)
    elseif how.g or how.p then
      placeOrdered(id, how, false)
    else
      redis.call("RPUSH", WAIT, id)
    end
    emit("added", id)
  end
end
redis.call("ZADD", WAKE, 0, "0")
publish("control", "due")
return before + 1
