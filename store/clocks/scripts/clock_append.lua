-- Appends an event to a shared clock.
-- ARGV: now (ms), log entry, policy version, tick after which the same entry may be
-- in the log already ('' if it is not), then list ('recent' or 'changed') and member in turn.
-- Returns { epoch, tick, tick before, version, server, ... }; with tick 0 and the present clock as the tick before it
-- if the entry is in the log already.
local entry, version, repeated_after = ARGV[2], ARGV[3], ARGV[4]
local FIRST_MEMBER = 5

-- Adds an object to a list, or gives it a later tick.
local function put_into(list, member, tick)
  local key = TAG .. list
  if redis.call('ZADD', key, tick, member) == 0 then return end
  redis.call('HINCRBY', META, 'listed', 1)
  local size = redis.call('ZCARD', key)
  if size == 1 then redis.call('PEXPIRE', key, CLOCK_IDLE_MS) end
  if size > CLOCK_LOG_LENGTH then
    local oldest = redis.call('ZPOPMIN', key)
    redis.call('HINCRBY', META, 'listed', -1)
    redis.call('HSET', META, 'floor', oldest[2])
  end
end

local routes = list_routes()
local epoch, clock = open_clock()
-- A change of rights raises the version in Redis before it is answered.
local raised = redis.call('HGET', META, 'pv')
if raised and tonumber(raised) > (tonumber(version) or 0) then version = raised end
if repeated_after ~= '' then
  for _, row in ipairs(redis.call('XRANGE', LOG, '(' .. repeated_after .. '-0', '+')) do
    if row[2][4] == entry then return { epoch, 0, int(clock), version, unpack(routes) } end
  end
end
local tick = math.max(clock + 1, NOW)
local fields = { int(tick) .. '-0', 'p', int(clock), 'e', entry, 'v', version }
if not redis.call('XADD', LOG, 'NOMKSTREAM', 'MAXLEN', '~', CLOCK_LOG_LENGTH, unpack(fields)) then
  redis.call('XADD', LOG, unpack(fields))
  redis.call('PEXPIRE', LOG, CLOCK_IDLE_MS)
end
redis.call('HSET', META, 'clock', int(tick))
for i = FIRST_MEMBER, #ARGV, 2 do put_into(ARGV[i], ARGV[i + 1], int(tick)) end
return { epoch, int(tick), int(clock), version, unpack(routes) }
