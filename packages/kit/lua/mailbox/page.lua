-- Messages of a list without taking them, about MOST_BYTES of them: more would hold up Redis.
--
-- KEYS  1 box or dead
-- ARGV  1 position of the first  2 most messages
-- Returns {1 if there are more, message ...}
local call = redis.call
local MOST_BYTES, AT_ONCE = 1048576, 10
local first, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local out, bytes = { 0 }, 0
while #out <= most and bytes < MOST_BYTES do
  local start = first + #out - 1
  local wanted = math.min(AT_ONCE, most - #out + 1)
  local found = call('LRANGE', KEYS[1], start, start + wanted - 1)
  for _, body in ipairs(found) do
    out[#out + 1] = body
    bytes = bytes + #body
  end
  if #found < wanted then break end
end
if call('LLEN', KEYS[1]) > first + #out - 1 then out[1] = 1 end
return out
