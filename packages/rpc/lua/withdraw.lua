-- Takes a call that nobody has popped yet out of a list. In a long list only so many of the oldest and of the
-- newest elements are compared: a call that was popped is not found anywhere, and to look at a million of
-- others for it would block Redis.
-- KEYS: the list
-- ARGV: the text of the call, at most how many elements of each end to compare
-- Returns: 1 or 0: whether it was there
for _, rank in ipairs({ 1, -1 }) do
  if redis.call('LPOS', KEYS[1], ARGV[1], 'RANK', rank, 'MAXLEN', ARGV[2]) then
    return redis.call('LREM', KEYS[1], rank, ARGV[1])
  end
end
return 0
