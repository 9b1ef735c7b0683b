-- Says that a server holds connections of this user. ARGV: now (ms), server, ms since the epoch until which that holds.
-- Answers {} where the state isn't loaded (nothing is registered then), else {epoch, clock, when the next mute ends or ''}.
local epoch = loaded()
if not epoch then return {} end
redis.call('ZADD', ROUTES, ARGV[3], ARGV[2])
redis.call('HSET', META, 'routed', int(math.max(tonumber(redis.call('HGET', META, 'routed')) or 0, tonumber(ARGV[3]))))
touch()
local meta = redis.call('HMGET', META, 'clock', 'due')
return { epoch, meta[1], meta[2] or '' }
