-- A login succeeded: its user's failures from there are forgotten, and it does not count against the place.
-- KEYS[1] throttle of the user at that place   KEYS[2] throttle of the place
-- Returns nothing.
redis.call('DEL', KEYS[1])
if redis.call('HINCRBY', KEYS[2], 'count', -1) <= 0 then
  redis.call('DEL', KEYS[2])
else
  redis.call('HDEL', KEYS[2], 'until')
end
return nil
