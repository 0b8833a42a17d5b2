-- Searches one range of the jobs in a state and returns the matches.
--
-- KEYS  the queue's, up to OUTBOX
-- ARGV  1 state, 2 first place (from 0), 3 how many places, 4 name or "", 5 string to find in the data or
--       "", 6 group or "", 7 maximum of matches, 8 only jobs that ended until this ms, or ""
-- Returns {next place or -1, {id, record, notes JSON or nil, token or nil, due ms or nil} ...}.
local state, first, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local name, text, group, most, last = ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local ends = { completed = COMPLETED, failed = FAILED }

-- Each state's jobs in the order in which they will run, or ended (newest first).
local lists = {
  waiting = { { "LRANGE", WAIT, "LLEN" }, { "ZRANGE", PRIO, "ZCARD" }, { "ZRANGE", GROUPED, "ZCARD", 1 } },
  delayed = { { "ZRANGE", DELAYED, "ZCARD" } },
  active = { { "ZRANGE", LEASE, "ZCARD" } },
  blocked = { { "ZRANGE", BLOCKED, "ZCARD" } },
  completed = { { "ZREVRANGE", COMPLETED, "ZCARD" } },
  failed = { { "ZREVRANGE", FAILED, "ZCARD" } },
}

local ids, skip, more = {}, first, false
for _, list in ipairs(lists[state]) do
  local size = redis.call(list[3], list[2])
  if skip >= size then
    skip = skip - size
  elseif #ids < count then
    local members = redis.call(list[1], list[2], skip, skip + count - #ids - 1)
    for _, member in ipairs(members) do
      if list[4] then member = select(2, groupAndId(member)) end
      ids[#ids + 1] = member
    end
    more = more or skip + #members < size
    skip = 0
  else
    more = more or size > 0
  end
end
if #ids == 0 then return { -1 } end

local found, bytes = { -1 }, 0
for i, id in ipairs(ids) do
  if bytes >= MOST_BYTES then
    found[1] = first + i - 1
    return found
  end
  local record = redis.call("HGET", JOBS, id)
  if record then
    bytes = bytes + #record
    local opts, called, data = string.match(record, "^%d+;%d+;%d+;([^\n]*)\n([^\n]*)\n()")
    local o = group ~= "" and optionsOf(opts)
    if (name == "" or called == name)
      and (text == "" or id == text or string.find(record, text, data or 1, true))
      and (group == "" or o.g == group)
      and (not last or tonumber(redis.call("ZSCORE", ends[state], id) or 0) <= last)
    then
      local at = state == "delayed" and redis.call("ZSCORE", DELAYED, id)
      local notes = redis.call("HGET", NOTES, id)
      bytes = bytes + #(notes or "")
      found[#found + 1] = { id, record, notes, redis.call("HGET", ACTIVE, id), at }
      if #found > most then
        if i < #ids or more then found[1] = first + i end
        return found
      end
    end
  end
end
if more then found[1] = first + #ids end
return found
