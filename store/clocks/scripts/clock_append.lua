-- Appends an event to a shared clock.
-- ARGV: now (ms), log entry, policy version, '1' if the same entry may be in the log already, else '', channel of the
-- message that it is about ('' for other events), then list ('recent', 'changed' or 'members') and element in turn.
-- Returns { epoch, tick, tick before, version, server, ... }; with tick 0 and the present clock as the tick before it
-- if the entry is in the log already.
local entry, version, may_repeat, channel = ARGV[2], ARGV[3], ARGV[4] ~= '', ARGV[5]
local FIRST_ELEMENT = 6
local PAGE = 1000
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

-- Returns whether the entry is in the log. The first call in a while goes through the whole log, for all others.
local function is_in_log()
  if redis.call('SCARD', ENTRIES) > 2 * CLOCK_LOG_LENGTH then redis.call('DEL', ENTRIES) end
  if redis.call('EXISTS', ENTRIES) == 0 then
    local after = '-'
    repeat
      local rows, found = redis.call('XRANGE', LOG, after, '+', 'COUNT', PAGE), {}
      for i, row in ipairs(rows) do found[i] = row[2][4] end
      if #rows > 0 then
        redis.call('SADD', ENTRIES, unpack(found))
        after = '(' .. rows[#rows][1]
      end
    until #rows < PAGE
  end
  redis.call('PEXPIRE', ENTRIES, CLOCK_ENTRIES_MS)
  return redis.call('SISMEMBER', ENTRIES, entry) == 1
end

local routes = list_routes()
local epoch, clock = open_clock()
-- A change of rights raises the version in Redis before it is answered.
local raised = redis.call('HGET', META, 'pv')
if raised and tonumber(raised) > (tonumber(version) or 0) then version = raised end
if may_repeat and is_in_log() then return { epoch, 0, int(clock), version, unpack(routes) } end
local tick = math.max(clock + 1, NOW)
local fields = { int(tick) .. '-0', 'p', int(clock), 'e', entry, 'v', version, 'c', channel }
if not redis.call('XADD', LOG, 'NOMKSTREAM', 'MAXLEN', '~', CLOCK_LOG_LENGTH, unpack(fields)) then
  redis.call('XADD', LOG, unpack(fields))
  redis.call('PEXPIRE', LOG, CLOCK_IDLE_MS)
end
if redis.call('EXISTS', ENTRIES) == 1 then redis.call('SADD', ENTRIES, entry) end
redis.call('HSET', META, 'clock', int(tick))
for i = FIRST_ELEMENT, #ARGV, 2 do put_into(ARGV[i], ARGV[i + 1], int(tick)) end
return { epoch, int(tick), int(clock), version, unpack(routes) }
