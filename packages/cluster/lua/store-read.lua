-- Reads values with what is known about them.
--
-- KEYS  1 meta, then the values' keys (at most 1000)
-- ARGV  the paths, in the order of the values' keys
-- Returns a list of {value, meta}, or {} for a path that does not exist
local found = {}
for i = 1, #ARGV do
  local value = redis.call("GET", KEYS[1 + i])
  local meta = value and redis.call("HGET", KEYS[1], ARGV[i])
  found[i] = meta and { value, meta } or {}
end
return found
