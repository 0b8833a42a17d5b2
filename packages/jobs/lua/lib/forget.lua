-- Deletes jobs, including those that an earlier flow with the same ids left behind.
local MOST_OUTCOMES = 5000 -- maximum of child outcomes that one call deletes, plus those of the last parent
local forgotten = 0 -- number of them so far
local readBytes = 0 -- of the records of ended jobs that this call has read

local function optionsOfEnded(id)
  local record = redis.call("HGET", JOBS, id) or ""
  readBytes = readBytes + #record
  return optionsIn(record)
end

-- Deletes everything the job has.
local function forget(id, o)
  redis.call("HDEL", JOBS, id)
  redis.call("HDEL", NOTES, id)
  redis.call("ZREM", TIMERS, "j" .. id, "w" .. id)
  if o.n then
    forgotten = forgotten + o.n
    local family = familyOf(o.y, id)
    redis.call("HDEL", CHILDREN, "n" .. family, "x" .. family)
    for first = 0, o.n - 1, CHUNK do
      local fields = {}
      for i = first, math.min(first + CHUNK, o.n) - 1 do fields[#fields + 1] = "c" .. family .. "/" .. i end
      redis.call("HDEL", CHILDREN, unpack(fields))
    end
  end
end

-- The options of a job that is to be added. Its record may have no time yet.
local function optionsOfNew(record)
  return optionsOf(string.match(record, "^%d*;%d+;%d+;([^\n]*)"))
end

-- Whether the existing job is the one that is to be added, because the call was applied before.
local function isSame(record, new)
  local flow = optionsIn(record).y
  return flow and flow == optionsOfNew(new).y
end

-- Whether the existing job is the same child of an earlier flow: it has ended and is only kept, so its place in
-- the flow is free. `added` is the record of the new child.
local function isEarlierLife(id, record, added)
  local old, new = optionsIn(record), optionsOfNew(added)
  return new.f
    and new.f == old.f
    and new.q == old.q
    and (redis.call("ZSCORE", COMPLETED, id) or redis.call("ZSCORE", FAILED, id))
end

local function forgetEnded(id)
  redis.call("HINCRBY", META, "outbox", 0) -- refused while Redis is out of memory, so that nothing is added then
  redis.call("ZREM", COMPLETED, id)
  redis.call("ZREM", FAILED, id)
  forget(id, optionsIn(redis.call("HGET", JOBS, id)))
end
