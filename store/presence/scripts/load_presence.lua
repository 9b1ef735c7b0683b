-- Puts the part of a record from MongoDB into it, unless it has a later one.
-- ARGV: now (ms), revision of the part, the part (JSON), time at which others last saw the user (ms, or ''), and '1' if
-- it was loaded for a reader.
-- Returns { record before, record now, servers that show it }.
local revision, settings, seen_ms, is_for_reader = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5] == '1'

local before = redis.call('HGETALL', RECORD)
local is_changed = raise_seen(seen_ms)
if revision > tonumber(redis.call('HGET', RECORD, REVISION) or '-1') then
  redis.call('HSET', RECORD, REVISION, ARGV[2], SETTINGS, settings)
  is_changed = true
end
if is_changed then begin_next_version() end
if is_for_reader then redis.call('HSET', RECORD, READ_AT, ARGV[1]) end
return answer_since(before)
