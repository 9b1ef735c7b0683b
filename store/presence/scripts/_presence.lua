-- Functions on the presence of one user.
-- KEYS[1], RECORD: hash; `CachedRecordField` has its fields.
-- KEYS[2], SERVERS: sorted set, the servers that show the user to somebody by the time until which that is known (ms).
-- ARGV[1] is always the current time, ms.
local RECORD, SERVERS, NOW_MS = KEYS[1], KEYS[2], tonumber(ARGV[1])
local KEPT_MS = 2 * 3600 * 1000

-- Gives the record a version that is greater than all former ones, also those of a record that was evicted.
local function begin_next_version()
  local version = tonumber(redis.call('HGET', RECORD, VERSION) or '0')
  redis.call('HSET', RECORD, VERSION, string.format('%.0f', math.max(NOW_MS, version + 1)))
end

-- Moves the time at which others last saw the user. seen_ms: text, '' if there is none. Returns whether it was earlier.
local function raise_seen(seen_ms)
  if seen_ms == '' or tonumber(seen_ms) <= tonumber(redis.call('HGET', RECORD, SEEN) or '0') then return false end
  redis.call('HSET', RECORD, SEEN, seen_ms)
  return true
end

local function is_later(field)
  return tonumber(redis.call('HGET', RECORD, field) or '-1') >= NOW_MS
end

-- Notes if the set of servers was evicted while servers showed the user.
local function check_servers()
  if redis.call('EXISTS', SERVERS) == 0 and is_later(WATCHED_UNTIL) then
    redis.call('HSET', RECORD, LOST_UNTIL, redis.call('HGET', RECORD, WATCHED_UNTIL))
  end
end

-- Returns the servers that show the user; ALL_SERVERS if any of them was lost. is_new: the record was not there, so it
-- is not known whether it was evicted.
local function list_servers(is_new)
  check_servers()
  redis.call('ZREMRANGEBYSCORE', SERVERS, '-inf', '(' .. ARGV[1])
  if is_new or is_later(LOST_UNTIL) then return { ALL_SERVERS } end
  return redis.call('ZRANGE', SERVERS, 0, -1)
end

-- Returns { record before, record now, servers that show it }, and keeps the record for some time.
local function answer_since(before)
  redis.call('PEXPIRE', RECORD, KEPT_MS)
  return { before, redis.call('HGETALL', RECORD), list_servers(#before == 0) }
end
