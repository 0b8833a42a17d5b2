-- Removes a call that was not popped yet from a list. In a long list, only a bounded number of the oldest and
-- newest elements is compared: a call that was popped is not in the list, and comparing a million
-- other calls would block Redis.
-- KEYS: the list
-- ARGV: the text of the call, the maximum number of elements to compare at each end
-- Returns: 1 if it was found, else 0
for _, rank in ipairs({ 1, -1 }) do
  if redis.call('LPOS', KEYS[1], ARGV[1], 'RANK', rank, 'MAXLEN', ARGV[2]) then
    return redis.call('LREM', KEYS[1], rank, ARGV[1])
  end
end
return 0
