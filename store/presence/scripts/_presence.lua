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

-- Returns { record before, record now, servers that show it }, and keeps the record for some time.
local function answer_since(before)
  redis.call('PEXPIRE', RECORD, KEPT_MS)
  redis.call('ZREMRANGEBYSCORE', SERVERS, '-inf', '(' .. ARGV[1])
  return { before, redis.call('HGETALL', RECORD), redis.call('ZRANGE', SERVERS, 0, -1) }
end
