-- Ends one at-least-once call: its answer is written and the call forgotten, both or neither. If the
-- call is no longer in the worker's in-flight list another worker has it, and that one will answer.
-- KEYS: the in-flight list of the worker, the attempts of the request list, the list to answer into
-- ARGV: the call, the answer (empty for none), the push command (LPUSH or RPUSH), ttl of the answer in s
-- Returns: 1; 0 if the call belongs to another worker now; 2 if the list to answer into is none
local kind = redis.call('TYPE', KEYS[3]).ok
local wrong = ARGV[2] ~= '' and kind ~= 'none' and kind ~= 'list'
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
redis.call('HDEL', KEYS[2], redis.sha1hex(ARGV[1]))
if wrong then return 2 end -- nobody can read it there, and to run the call again would change nothing
if ARGV[2] ~= '' then
  redis.call(ARGV[3], KEYS[3], ARGV[2])
  redis.call('EXPIRE', KEYS[3], ARGV[4])
end
return 1
