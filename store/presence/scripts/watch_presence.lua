-- Notes that a server shows a user until a time.
-- ARGV: now (ms), server, time (ms). Returns the record.
local server, until_ms = ARGV[2], ARGV[3]

check_servers()
redis.call('ZADD', SERVERS, 'GT', until_ms, server)
if tonumber(redis.call('HGET', RECORD, WATCHED_UNTIL) or '0') < tonumber(until_ms) then
  redis.call('HSET', RECORD, WATCHED_UNTIL, until_ms)
end
local kept_ms = math.max(KEPT_MS, tonumber(until_ms) - NOW_MS)
redis.call('PEXPIRE', SERVERS, kept_ms)
redis.call('PEXPIRE', RECORD, kept_ms)
return redis.call('HGETALL', RECORD)
