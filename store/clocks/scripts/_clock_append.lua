-- Functions that append events to a shared clock. Included after `_clock`.
local FLOORS = { recent = 'floor', changed = 'floor', members = 'members_floor' }

-- Adds an object to a list, or gives it a later tick.
local function put_into(list, element, tick)
  local key = TAG .. list
  if redis.call('ZADD', key, tick, element) == 0 then return end
  redis.call('HINCRBY', META, 'listed', 1)
  local size = redis.call('ZCARD', key)
  if size == 1 then redis.call('PEXPIRE', key, CLOCK_IDLE_MS) end
  if size > CLOCK_LOG_LENGTH then
    local oldest = redis.call('ZPOPMIN', key)
    redis.call('HINCRBY', META, 'listed', -1)
    redis.call('HSET', META, FLOORS[list], oldest[2])
  end
end

-- Returns the later one of a policy version and that in Redis. A change of rights raises the version in Redis before it
-- is answered.
local function newest_version(version)
  local raised = redis.call('HGET', META, 'pv')
  if raised and tonumber(raised) > (tonumber(version) or 0) then return raised end
  return version
end

local function next_tick(clock)
  return math.max(clock + 1, NOW)
end

-- Appends an entry with the next tick after `clock`. objects: list and element in turn, from an index on.
local function append_entry(clock, entry, version, channel, objects, first)
  local tick = int(next_tick(clock))
  local fields = { tick .. '-0', 'p', int(clock), 'e', entry, 'v', version, 'c', channel }
  if not redis.call('XADD', LOG, 'NOMKSTREAM', 'MAXLEN', '~', CLOCK_LOG_LENGTH, unpack(fields)) then
    redis.call('XADD', LOG, unpack(fields))
    redis.call('PEXPIRE', LOG, CLOCK_IDLE_MS)
  end
  if redis.call('EXISTS', ENTRIES) == 1 then redis.call('SADD', ENTRIES, entry) end
  redis.call('HSET', META, 'clock', tick)
  for i = first, #objects, 2 do put_into(objects[i], objects[i + 1], tick) end
  return tick
end
