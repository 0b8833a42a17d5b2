-- Applies commands of one slot, unless a newer run of the task has claimed the slot or they were applied before.
--
-- KEYS[1]    hash, the mark of the slot: epoch, offset, step, from (where the unit of that offset begins),
--            `h<key>`: the offset that the value of a key read again from the source includes, and
--            `last-<sequence>`: the id of the last group of a sequence, and the lines of its result
-- KEYS[2..]  every key of the commands, so that a slot that is being moved replies TRYAGAIN
-- ARGV[1]    epoch of this run
-- ARGV[2]    offset that the slot has afterwards; empty while a snapshot is loaded
-- ARGV[3]    step within the unit that ends at that offset
-- ARGV[4]    offset at which that unit begins
-- ARGV[5]    offset and
-- ARGV[6]    step that the slot has confirmed and must still have; both are empty if it has confirmed none
-- ARGV[7]    sequence of a group without an offset, and
-- ARGV[8]    its id: the last group of the sequence is not applied again, and has the same result; both may be empty
-- ARGV[9]    number of holds, then for each: key, and its offset, or an empty string to remove the hold
-- ARGV[..]   commands, each as: number of words, words (at most 7000)
-- Returns    {"fenced", epoch}, {"rewound", offset}, {"skipped"}, or {"applied", index, error, index, error, ...};
--            indexes start at 0
local last = 'last-' .. ARGV[7]
local mark = redis.call('HMGET', KEYS[1], 'epoch', 'offset', 'step', last)
if tonumber(mark[1] or '0') > tonumber(ARGV[1]) then
  return {'fenced', mark[1]}
end
if ARGV[5] ~= '' then
  local offset, step = tonumber(mark[2] or '-1'), tonumber(mark[3] or '0')
  if offset < tonumber(ARGV[5]) or (offset == tonumber(ARGV[5]) and step < tonumber(ARGV[6])) then
    return {'rewound', mark[2] or ''}
  end
end
if ARGV[2] ~= '' and mark[2] then
  local offset, step = tonumber(mark[2]), tonumber(mark[3] or '0')
  if offset > tonumber(ARGV[2]) or (offset == tonumber(ARGV[2]) and step >= tonumber(ARGV[3])) then
    return {'skipped'}
  end
end
if ARGV[7] ~= '' and mark[4] then
  local lines = {}
  for line in string.gmatch(mark[4], '[^\n]+') do
    lines[#lines + 1] = line
  end
  if lines[1] == ARGV[8] then
    lines[1] = 'applied'
    return lines
  end
end
-- The first write. If memory is short, it fails here, before anything has changed.
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], 'offset', ARGV[2])
  redis.call('HSET', KEYS[1], 'step', ARGV[3])
  redis.call('HSET', KEYS[1], 'from', ARGV[4])
end
local at = 10
for _ = 1, tonumber(ARGV[9]) do
  if ARGV[at + 1] == '' then
    redis.call('HDEL', KEYS[1], 'h' .. ARGV[at])
  else
    redis.call('HSET', KEYS[1], 'h' .. ARGV[at], ARGV[at + 1])
  end
  at = at + 2
end
local result = {'applied'}
local index = 0
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local reply = redis.pcall(unpack(ARGV, at + 1, at + words))
  if type(reply) == 'table' and reply.err then
    result[#result + 1] = index
    result[#result + 1] = string.gsub(reply.err, '[\r\n]', ' ')
  end
  at = at + words + 1
  index = index + 1
end
if ARGV[7] ~= '' then
  local lines = table.concat(result, '\n', 2)
  redis.call('HSET', KEYS[1], last, ARGV[8] .. '\n' .. lines)
end
return result
