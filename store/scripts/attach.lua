-- Says that a server holds connections of this user. ARGV: server, ms since the epoch until which that holds.
-- Answers {} where the state isn't loaded (nothing is registered then), else {epoch, clock}.
local epoch = loaded()
if not epoch then return {} end
redis.call('ZADD', ROUTES, ARGV[2], ARGV[1])
touch()
return { epoch, redis.call('HGET', META, 'clock') }
