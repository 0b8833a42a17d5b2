-- Ends one at-least-once call: writes its response and removes the call, both or neither. If the
-- call is no longer in the worker's in-flight list, another worker has it and will respond.
-- KEYS: the in-flight list of the worker, the attempts of the request list, the response list
-- ARGV: the call, the response (empty for none), the push command (LPUSH or RPUSH), ttl of the response in s
-- Returns: 1; 0 if another worker has the call now; 2 if the response list is not a list
local kind = redis.call('TYPE', KEYS[3]).ok
local wrong = ARGV[2] ~= '' and kind ~= 'none' and kind ~= 'list'
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
redis.call('HDEL', KEYS[2], redis.sha1hex(ARGV[1]))
if wrong then return 2 end -- no caller can read it there, and running the call again would not help
if ARGV[2] ~= '' then
  redis.call(ARGV[3], KEYS[3], ARGV[2])
  redis.call('EXPIRE', KEYS[3], ARGV[4])
end
return 1
