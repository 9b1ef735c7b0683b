-- Notes that a server does not show a user any more.
-- ARGV: now (ms), server.
check_servers()
redis.call('ZREM', SERVERS, ARGV[2])
if redis.call('EXISTS', SERVERS) == 0 then redis.call('HDEL', RECORD, WATCHED_UNTIL) end
