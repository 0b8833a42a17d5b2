-- Writes a running job's progress or a line of its log; only its holder may.
--
-- KEYS  1 meta, 2 active, 3 notes, 4 events
-- ARGV  1 id, 2 token, 3 "progress" | "log", 4 JSON value or line, 5 how many lines to keep
-- Returns 1, or 0 if the job is not held with this token.
local META, ACTIVE, NOTES, EVENTS = unpack(KEYS)
local id, token, kind, value = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if redis.call("HGET", ACTIVE, id) ~= token then return 0 end

local doc = redis.call("HGET", NOTES, id)
doc = doc and cjson.decode(doc) or {}
if kind == "progress" then
  doc.p = value
else
  doc.l = doc.l or {}
  doc.l[#doc.l + 1] = value
  while #doc.l > tonumber(ARGV[5]) do table.remove(doc.l, 1) end
end
redis.call("HSET", NOTES, id, cjson.encode(doc))

local time = redis.call("TIME")
if tonumber(redis.call("HGET", META, "listen") or 0) > time[1] * 1000 then
  redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", kind, "id", id, "value", value)
end
return 1
