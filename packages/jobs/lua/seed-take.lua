-- Takes items from a documented list under a lease, after putting back items whose lease expired. A repeated call
-- takes no more items.
--
-- KEYS  1 the list, 2 hash token -> item, 3 zset token -> ms when the lease expires
-- ARGV  1 how many, 2 lease ms, 3 prefix of the tokens (unique to this call)
-- Returns {token, item, token, item ...}.
local LIST, TAKEN, LEASES = unpack(KEYS)
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local length = redis.pcall("LLEN", LIST)
if type(length) == "table" then return length end -- of a foreign type: the items stay where they are
local lost = redis.call("ZRANGEBYSCORE", LEASES, "-inf", now, "LIMIT", 0, 100)
for i = #lost, 1, -1 do
  local item = redis.call("HGET", TAKEN, lost[i])
  redis.call("ZREM", LEASES, lost[i]) -- before the push: lets this work while Redis is out of memory
  redis.call("HDEL", TAKEN, lost[i])
  if item then redis.call("LPUSH", LIST, item) end
end

local want, taken = tonumber(ARGV[1]), {}
for n = 1, want do
  local token = ARGV[3] .. ":" .. n
  local item = redis.call("HGET", TAKEN, token) -- taken by this call, whose reply was lost
  if not item then
    item = redis.call("LPOP", LIST)
    if not item then break end
    redis.call("HSET", TAKEN, token, item)
    redis.call("ZADD", LEASES, now + ARGV[2], token)
  end
  taken[#taken + 1] = token
  taken[#taken + 1] = item
end
return taken
