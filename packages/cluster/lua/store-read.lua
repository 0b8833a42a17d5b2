-- Reads values with what is known about them, as far as about ARGV[1] bytes go, and at least one.
--
-- KEYS  1 meta, then the values' keys (at most 1000)
-- ARGV  1 about how many bytes to read, then the paths, in the order of the values' keys
-- Returns a list of {value, meta}, or {} for a path that does not exist; it may be shorter than the paths
local found, bytes, budget = {}, 0, tonumber(ARGV[1])
for i = 1, #ARGV - 1 do
  if bytes > 0 and bytes + redis.call("STRLEN", KEYS[1 + i]) > budget then break end
  local value = redis.call("GET", KEYS[1 + i])
  local meta = value and redis.call("HGET", KEYS[1], ARGV[1 + i])
  found[i] = meta and { value, meta } or {}
  bytes = bytes + (value and #value or 0)
end
return found
