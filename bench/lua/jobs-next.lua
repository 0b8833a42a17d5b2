-- The least a queue must do to end jobs and take others under a lease.
-- KEYS 1 jobs, 2 wait, 3 lease; ARGV 1 want, 2 lease ms, then ids that are done
if #ARGV > 2 then
  local done = {}
  for i = 3, #ARGV do done[#done + 1] = ARGV[i] end
  redis.call("HDEL", KEYS[1], unpack(done))
  redis.call("ZREM", KEYS[3], unpack(done))
end
local want = tonumber(ARGV[1])
local ids = want > 0 and redis.call("LPOP", KEYS[2], want)
if not ids then return {} end
local ends = redis.call("TIME")[1] * 1000 + ARGV[2]
local leases, jobs = {}, redis.call("HMGET", KEYS[1], unpack(ids))
local taken = {}
for i, id in ipairs(ids) do
  leases[#leases + 1] = ends
  leases[#leases + 1] = id
  taken[#taken + 1] = id
  taken[#taken + 1] = jobs[i]
end
redis.call("ZADD", KEYS[3], unpack(leases))
return taken
