-- Appends an event to a shared clock.
-- ARGV: now (ms), log entry, policy version, list ('recent', 'changed' or ''), member of that list, tick after which
-- the same entry may be in the log already ('' if it is not), '1' to do nothing unless a server has a route.
-- Returns { epoch, tick, tick before, server, ... }; with tick 0 and the present clock as the tick before it if the
-- entry is in the log already. Returns {} if no server has a route, and one was needed.
local entry, version, list, member, repeated_after, needs_route =
  ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7] == '1'

local routes = list_routes()
if needs_route and #routes == 0 then return {} end
local epoch, clock = open_clock()
if repeated_after ~= '' then
  for _, row in ipairs(redis.call('XRANGE', LOG, '(' .. repeated_after .. '-0', '+')) do
    if row[2][4] == entry then return { epoch, 0, int(clock), unpack(routes) } end
  end
end
local tick = math.max(clock + 1, NOW)
local fields = { int(tick) .. '-0', 'p', int(clock), 'e', entry, 'v', version }
if not redis.call('XADD', LOG, 'NOMKSTREAM', 'MAXLEN', '~', CLOCK_LOG_LENGTH, unpack(fields)) then
  redis.call('XADD', LOG, unpack(fields))
  redis.call('PEXPIRE', LOG, CLOCK_IDLE_MS)
end
redis.call('HSET', META, 'clock', int(tick))
if list ~= '' then
  local key = TAG .. list
  if redis.call('ZADD', key, int(tick), member) == 1 then
    redis.call('HINCRBY', META, 'listed', 1)
    local size = redis.call('ZCARD', key)
    if size == 1 then redis.call('PEXPIRE', key, CLOCK_IDLE_MS) end
    if size > CLOCK_LOG_LENGTH then
      local oldest = redis.call('ZPOPMIN', key)
      redis.call('HINCRBY', META, 'listed', -1)
      redis.call('HSET', META, 'floor', oldest[2])
    end
  end
end
return { epoch, int(tick), int(clock), unpack(routes) }
