-- Finds the keys that are due, and the time until the next one.
--
-- A reservation moves their time a little into the future, so that only one of many dispatchers gets each
-- due key. If that dispatcher dies before get(), the key is late by the reservation.
--
-- Paused keys keep their time and are skipped. pause.lua bounds their number, so one call can skip all of
-- them. If a foreign value has replaced their set, no key counts as paused: the reply names the set, and the
-- other keys continue.
--
-- KEYS  1 timer  2 paused  3 paused keys
-- ARGV  1 maximum of keys  2 reservation in ms, 0 none
-- Returns {ms to the next key or -1, score of the reservation or "", "" or the key of a wrong type,
--       key, score, key, score ...}
if redis.call('EXISTS', KEYS[2]) == 1 then return { '-1', '', '' } end
local time = redis.call('TIME')
local now = string.format('%d.%06d', time[1], time[2])
local most = tonumber(ARGV[1])
local paused, wrong = redis.pcall('SCARD', KEYS[3]), ''
if type(paused) == 'table' then
  if not string.find(paused.err, 'WRONGTYPE', 1, true) then return paused end
  paused, wrong = 0, KEYS[3]
end
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, most + math.min(paused, 1000))
if paused > 0 then
  local passed = {}
  for i = 1, #found, 2 do
    if #passed == 2 * most then break end
    if redis.call('SISMEMBER', KEYS[3], found[i]) == 0 then
      passed[#passed + 1], passed[#passed + 2] = found[i], found[i + 1]
    end
  end
  found = passed
end
local later = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local wait = '-1'
if later[2] then
  wait = string.format('%d', math.max(0, math.ceil((tonumber(later[2]) - tonumber(now)) * 1000)))
end
local reserved = ''
if tonumber(ARGV[2]) > 0 and #found > 0 then
  redis.call('DEL', KEYS[2]) -- does not exist; allows the later writes, as in get.lua
  reserved = string.format('%.3f', tonumber(now) + tonumber(ARGV[2]) / 1000)
  for i = 1, #found, 2 do redis.call('ZADD', KEYS[1], 'XX', reserved, found[i]) end
end
return { wait, reserved, wrong, unpack(found) }
