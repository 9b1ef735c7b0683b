-- Changes devices of a user.
-- ARGV: now (ms), number of fields to set, then their names and values, then the names of fields to remove.
-- Returns { record before, record now, servers that show it }.
local count = tonumber(ARGV[2])

local before = redis.call('HGETALL', RECORD)
for i = 3, 1 + 2 * count, 2 do redis.call('HSET', RECORD, ARGV[i], ARGV[i + 1]) end
for i = 3 + 2 * count, #ARGV do redis.call('HDEL', RECORD, ARGV[i]) end
begin_next_version()
return answer_since(before)
