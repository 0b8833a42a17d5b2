-- A login that was counted was not tried after all: it counts nowhere.
-- KEYS[i] hash of one throttle: count, until (at most 3 keys)
-- Returns nothing.
for _, key in ipairs(KEYS) do
  if redis.call('HINCRBY', key, 'count', -1) <= 0 then
    redis.call('DEL', key)
  else
    -- It was tried because no wait was left, so the wait that is there now is its own.
    redis.call('HDEL', key, 'until')
  end
end
return nil
