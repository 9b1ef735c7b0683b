-- Appends an event to a shared clock.
-- ARGV: now (ms), log entry, policy version, '1' if the same entry may be in the log already, else '', channel of the
-- message that it is about ('' for other events), then list ('recent', 'changed' or 'members') and element in turn.
-- Returns { epoch, tick, tick before, version, server, ... }; with tick 0 and the present clock as the tick before it
-- if the entry is in the log already.
local entry, version, may_repeat, channel = ARGV[2], ARGV[3], ARGV[4] ~= '', ARGV[5]
local FIRST_ELEMENT = 6
local PAGE = 1000

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
version = newest_version(version)
if may_repeat and is_in_log() then return { epoch, 0, int(clock), version, unpack(routes) } end
local tick = append_entry(clock, entry, version, channel, ARGV, FIRST_ELEMENT)
return { epoch, tick, int(clock), version, unpack(routes) }
