-- Removes the registration of a server that holds no connections of the user (attach.lua).
-- ARGV: now (ms), server.
local server, is_cached = ARGV[2], redis.call('HEXISTS', META, 'epoch') == 1
if is_cached then restore_routes() end
redis.call('ZREM', ROUTES, server)
if is_cached then copy_routes() end
return 1
