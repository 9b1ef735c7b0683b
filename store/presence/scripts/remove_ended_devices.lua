-- Removes devices that ended, unless they have changed.
-- ARGV: now (ms), time at which others last saw the user (ms, or ''), then the name and value of each field.
local seen_ms = ARGV[2]

if redis.call('EXISTS', RECORD) == 0 then return end
raise_seen(seen_ms)
for i = 3, #ARGV, 2 do
  if redis.call('HGET', RECORD, ARGV[i]) == ARGV[i + 1] then redis.call('HDEL', RECORD, ARGV[i]) end
end
