-- A login succeeded: the first throttle forgets everything, and the login does not count against the others.
-- KEYS[1] throttle of the user at that place, or of the device   KEYS[2..] throttles it shares with others (at most 2)
-- Returns nothing.
redis.call('DEL', KEYS[1])
for i = 2, #KEYS do
  if redis.call('HINCRBY', KEYS[i], 'count', -1) <= 0 then
    redis.call('DEL', KEYS[i])
  else
    redis.call('HDEL', KEYS[i], 'until')
  end
end
return nil
