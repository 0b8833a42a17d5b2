-- Another program may have put a value of another type under one of our keys. A script that moves jobs checks
-- the types before its first write: a script that failed half way would leave a job in no place.
local function wrongType(first, last)
  local TYPES = { "hash", "hash", "list", "zset", "zset", "zset", "hash", "zset", "hash", "zset", "hash", "zset", "zset", "hash", "zset", "hash", "zset", "set", "zset", "stream", "zset", "hash", "zset", "hash", "hash", "list", "hash", "hash", "zset" }
  for i = first, last do
    local found = redis.call("TYPE", KEYS[i]).ok
    if found ~= "none" and found ~= TYPES[i] then
      return redis.error_reply("WRONGTYPE " .. KEYS[i] .. " is a " .. found .. ", not a " .. TYPES[i])
    end
  end
end
