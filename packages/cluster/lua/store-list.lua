-- Lists the paths of a range together with the revision at that instant.
--
-- KEYS  1 state, 2 index
-- ARGV  1 the start as ZRANGE BYLEX wants it, 2 the end, 3 the maximum number of paths (at most 1001)
-- Returns {revision, path, ...}
local revision = redis.call("HGET", KEYS[1], "revision") or "0"
local paths = redis.call("ZRANGE", KEYS[2], ARGV[1], ARGV[2], "BYLEX", "LIMIT", 0, tonumber(ARGV[3]))
table.insert(paths, 1, revision)
return paths
