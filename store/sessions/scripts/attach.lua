-- Says that a server holds connections of this user. ARGV: now (ms), server, ms since the epoch until which that holds.
-- Answers {} where the state isn't loaded (nothing is registered then), else {epoch, clock, when the next mute ends or ''}.
local epoch = loaded()
if not epoch then return {} end
-- That key may have been evicted, and the copy not.
for until_ms, server in string.gmatch(redis.call('HGET', META, 'routes') or '', '(%d+) (%S+)') do
  redis.call('ZADD', ROUTES, until_ms, server)
end
if redis.call('ZADD', ROUTES, ARGV[3], ARGV[2]) == 1 then made = true end
copy_routes()
touch()
local meta = redis.call('HMGET', META, 'clock', 'due')
return { epoch, meta[1], meta[2] or '' }
