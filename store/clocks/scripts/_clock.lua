-- Functions on the keys of one shared clock. KEYS[1] is the key `meta`; the names of the others have the same prefix.
-- ARGV[1] is always the current time, ms.
--
--   meta     hash: epoch (absent: there is no clock; else the time of Redis when it began, "<s>.<us>"), clock, begin
--            (the clock when the epoch began), floor (changes up to there may be missing in `recent` and `changed`),
--            members_floor (the same for `members`), listed (number of elements of the three), touched (when all keys
--            got time to live, ms); and pv (newest known policy version), which may be there without a clock
--   log      stream of events: p (tick of the event before), e (log entry), v (policy version), c (channel of the
--            message that it is about; '' for other events); the id is "<tick>-0"
--   recent   sorted set: channel by the tick of its newest message
--   changed  sorted set: object by the tick of its newest change
--   members  sorted set: user by the tick of the newest change of their membership
--   entries  set of the entries of the log; there for a while after an entry that might have been in the log already
--   routes   sorted set: server with connections that look at it, by the time until which that is known, ms
local META = KEYS[1]
local TAG = string.sub(META, 1, -5)
local LOG, RECENT, CHANGED, MEMBERS = TAG .. 'log', TAG .. 'recent', TAG .. 'changed', TAG .. 'members'
local ENTRIES, ROUTES = TAG .. 'entries', TAG .. 'routes'
local NOW = tonumber(ARGV[1])

local function int(number)
  return string.format('%.0f', number)
end

local function touch(touched)
  if touched and math.abs(NOW - touched) <= CLOCK_TOUCH_INTERVAL_MS then return end
  for _, key in ipairs({ META, LOG, RECENT, CHANGED, MEMBERS, ROUTES }) do
    redis.call('PEXPIRE', key, CLOCK_IDLE_MS)
  end
  redis.call('HSET', META, 'touched', int(NOW))
end

-- Returns epoch and clock. Begins an epoch if there is no clock: the ticks of a lost one were below the time at which
-- the new one begins. If the clock or the log is still there, the new one begins after it.
local function open_clock()
  local meta = redis.call('HMGET', META, 'epoch', 'clock', 'touched')
  if meta[1] then
    touch(tonumber(meta[3]))
    return meta[1], tonumber(meta[2])
  end
  local begin, newest = NOW + CLOCK_LEAD_MS, redis.call('XREVRANGE', LOG, '+', '-', 'COUNT', 1)[1]
  if meta[2] then begin = math.max(begin, tonumber(meta[2]) + 1) end
  if newest then begin = math.max(begin, tonumber(string.match(newest[1], '^(%d+)-')) + 1) end
  redis.call('DEL', LOG, RECENT, CHANGED, MEMBERS, ENTRIES)
  local time, at = redis.call('TIME'), int(begin)
  local epoch = time[1] .. '.' .. time[2]
  redis.call(
    'HSET', META, 'epoch', epoch, 'clock', at, 'begin', at, 'floor', at, 'members_floor', at, 'listed', 0
  )
  touch()
  return epoch, begin
end

local function list_routes()
  return redis.call('ZRANGEBYSCORE', ROUTES, int(NOW), '+inf')
end
