-- Reads the newest response and the new progress reports of submitted calls without removing them.
-- KEYS: for each call its response list and its progress list, at most 100 calls
-- ARGV: the side that is popped (RIGHT or LEFT), then for each call the number of reports its reader has seen
-- Returns: for each call {response or false, {report, ...}}, oldest report first, at most 1000 of them
local right = ARGV[1] == 'RIGHT'
local found = {}
for i = 1, math.min(#KEYS, 200) - 1, 2 do
  local seen = tonumber(ARGV[2 + (i - 1) / 2])
  local response = redis.pcall('LINDEX', KEYS[i], right and -1 or 0)
  if type(response) == 'table' then response = false end
  local first, last = seen, seen + 999
  if right then first, last = -(seen + 1000), -(seen + 1) end
  local reports = redis.pcall('LRANGE', KEYS[i + 1], first, last)
  if reports.err then reports = {} end
  if right then
    local turned = {}
    for j = #reports, 1, -1 do turned[#turned + 1] = reports[j] end
    reports = turned
  end
  found[#found + 1] = { response, reports }
end
return found
