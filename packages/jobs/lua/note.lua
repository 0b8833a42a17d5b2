-- Writes a running job's progress or a line of its log; only its holder may.
--
-- KEYS  1 meta, 2 active, 3 notes, 4 events, 5 jobs
-- ARGV  1 id, 2 fence "@", 3 "progress" | "log", 4 JSON value or line, 5 how many lines to keep
-- Returns 1, or 0 if the job is not held with this fence.
local META, ACTIVE, NOTES, EVENTS, JOBS = unpack(KEYS)
local id, fence, kind, value = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local token = redis.call("HGET", ACTIVE, id)
if not token or string.sub(token, 1, #fence) ~= fence then return 0 end

local ok, doc = pcall(cjson.decode, redis.call("HGET", NOTES, id) or "{}")
if not ok or type(doc) ~= "table" then doc = {} end
if kind == "progress" then
  doc.p = value
else
  if type(doc.l) ~= "table" then doc.l = {} end
  doc.l[#doc.l + 1] = value
  while #doc.l > tonumber(ARGV[5]) do table.remove(doc.l, 1) end
end
-- Removing something first lets this script work while Redis is out of memory: a job must be able to end.
redis.call("HDEL", NOTES, "")
redis.call("HSET", NOTES, id, cjson.encode(doc))

local time = redis.call("TIME")
if (tonumber(redis.call("HGET", META, "listen") or 0) or 0) > time[1] * 1000 then
  local name = string.match(redis.call("HGET", JOBS, id) or "", "^[^\n]*\n([^\n]*)\n") or ""
  local field = #value > 4096 and "cut" or "value"
  redis.call("XADD", EVENTS, "MAXLEN", "~", 10000, "*", "event", kind, "id", id, "name", name, field, field == "cut" and #value or value)
end
return 1
