-- Fills a queue of ours with waiting jobs, in the form of docs/reference/wire/jobs.md.
-- KEYS 1 jobs, 2 wait; ARGV 1 first number, 2 how many, 3 what follows the time in a record
local time = redis.call("TIME")[1] .. "000"
for first = 0, ARGV[2] - 1, 500 do
  local fields, ids = {}, {}
  for i = first, math.min(first + 500, ARGV[2]) - 1 do
    local id = "fill." .. (ARGV[1] + i)
    ids[#ids + 1] = id
    fields[#fields + 1] = id
    fields[#fields + 1] = time .. ARGV[3]
  end
  redis.call("HSET", KEYS[1], unpack(fields))
  redis.call("RPUSH", KEYS[2], unpack(ids))
end
return redis.call("LLEN", KEYS[2])
