-- Reads messages for other queues, some per call. A message may have been carried by somebody who died before he
-- could forget it. While it is young the other queue knows that it has arrived; an old one is forgotten here if
-- its child has ended or its parent is gone.
--
-- KEYS  the queue's, up to OUTBOX
-- ARGV  1 cursor, "0" at first
-- Returns {next cursor or "0", number, message JSON, number, message JSON ...}.
local OLD_MS = 1800000 -- less than move.lua keeps what is in ADDS
local problem = wrongType(14, 14) or wrongType(24, 24)
if problem then return problem end

local function arrived(json)
  local posted = tonumber(string.match(json, '^{"at":(%d+),'))
  if not posted or now - posted < OLD_MS then return false end
  local ok, message = pcall(cjson.decode, json)
  if not ok or message.kind ~= "add" or type(message.flow) ~= "string" then return false end
  if type(message.parent) ~= "string" or type(message.child) ~= "string" then return false end
  return redis.call("HEXISTS", CHILDREN, "n" .. familyOf(message.flow, message.parent)) == 0
    or redis.call("HEXISTS", CHILDREN, "c" .. familyOf(message.flow, message.child)) == 1
end

local page = redis.call("HSCAN", OUTBOX, ARGV[1], "COUNT", 100)
local found = { page[1] }
for i = 1, #page[2], 2 do
  if arrived(page[2][i + 1]) then
    redis.call("HDEL", OUTBOX, page[2][i])
  else
    found[#found + 1] = page[2][i]
    found[#found + 1] = page[2][i + 1]
  end
end
return found
