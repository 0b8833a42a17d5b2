-- The least a queue must do to add jobs. KEYS 1 jobs, 2 wait; ARGV id, data, id, data ...
for i = 1, #ARGV, 2 do
  redis.call("HSET", KEYS[1], ARGV[i], ARGV[i + 1])
  redis.call("RPUSH", KEYS[2], ARGV[i])
end
return #ARGV / 2
