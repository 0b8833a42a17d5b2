-- Pops all elements of the lists, without waiting.
-- KEYS: the lists
-- ARGV: the pop command (RPOP or LPOP), the maximum number of elements of each list
-- Returns: {key, {element, ...}} for each list that had any
local found = {}
for _, key in ipairs(KEYS) do
  -- pcall: a key of another type must not lose the elements that were popped before.
  local elements = redis.pcall(ARGV[1], key, ARGV[2])
  if elements and not elements.err then found[#found + 1] = { key, elements } end
end
return found
