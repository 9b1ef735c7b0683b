-- Notes that a server shows a user until a time.
-- ARGV: now (ms), server, time (ms). Returns the record.
local server, until_ms = ARGV[2], ARGV[3]

redis.call('ZADD', SERVERS, 'GT', until_ms, server)
redis.call('PEXPIRE', SERVERS, math.max(KEPT_MS, tonumber(until_ms) - NOW_MS))
return redis.call('HGETALL', RECORD)
