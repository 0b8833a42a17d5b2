-- Reads changes from a revision on, only whole revisions. Values can be large, so it reads a few entries at
-- a time and stops after ARGV[5] bytes; only a revision that is larger by itself goes beyond that.
--
-- KEYS  1 state, 2 log
-- ARGV  1 the first revision wanted, 2 a path or a prefix that ends with "/", 3 the maximum number of log
--       entries (at most 1000, and more than one revision can have), 4 a revision that the reader has seen
--       in this log, or 0. If it is neither there nor trimmed, the server came back with an older copy.
--       5 about how many bytes of values to read
-- Returns {id of the history or "", revision, newest revision that is gone, next revision to ask for,
--          then for each change kind (p|d), path, value, meta}
local state = redis.call("HMGET", KEYS[1], "id", "revision", "born")
local id, revision, born = state[1] or "", tonumber(state[2] or 0), tonumber(state[3] or 0)
local from, wanted, count, budget = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])

local function revisionOf(entry) return tonumber(string.match(entry[1], "^(%d+)-")) end

local gone = 0
local oldest = redis.call("XRANGE", KEYS[2], "-", "+", "COUNT", 1)[1]
if oldest then
  local first = revisionOf(oldest)
  -- A revision of which the log lost the beginning is gone as a whole.
  if not string.match(oldest[1], "-0$") then gone = first
  elseif first > born then gone = first - 1 end
elseif revision >= born then
  gone = revision
end

local seen = ARGV[4]
if tonumber(seen) > gone and #redis.call("XRANGE", KEYS[2], seen .. "-0", seen .. "-0") == 0 then
  gone = math.max(revision, from)
end

local result = { id, string.format("%.0f", revision), string.format("%.0f", gone), ARGV[1] }
if from <= gone or from > revision then return result end

local entries, bytes, chunk, ended = {}, 0, 1, false
local start = string.format("%.0f-0", from)
local function isWhole() return #entries > 0 and revisionOf(entries[1]) ~= revisionOf(entries[#entries]) end
while not ended and #entries < count and (bytes < budget or not isWhole()) do
  local ask = math.min(chunk, count - #entries)
  local part = redis.call("XRANGE", KEYS[2], start, "+", "COUNT", ask)
  for _, entry in ipairs(part) do
    entries[#entries + 1] = entry
    for f = 2, #entry[2], 2 do bytes = bytes + #entry[2][f] end
  end
  ended = #part < ask
  if #part > 0 then start = "(" .. part[#part][1] end
  -- As many as the budget has room for, if they are as large as those before.
  chunk = math.max(1, math.min(64, math.floor((budget - bytes) * #entries / (bytes + 1))))
end

local last = #entries
if not ended then
  local partial = revisionOf(entries[last])
  while last > 0 and revisionOf(entries[last]) == partial do last = last - 1 end
end
local prefix = string.sub(wanted, -1) == "/"
for n = 1, last do
  local fields = {}
  for f = 1, #entries[n][2], 2 do fields[entries[n][2][f]] = entries[n][2][f + 1] end
  local path = fields.k
  if path == wanted or (prefix and string.sub(path, 1, #wanted) == wanted) then
    for _, name in ipairs({ "t", "k", "v", "m" }) do result[#result + 1] = fields[name] end
  end
end
local next = last == #entries and revision + 1 or revisionOf(entries[last]) + 1
result[4] = string.format("%.0f", next)
return result
