-- Returns the sums over a user's valid sessions that are not muted.
-- ARGV: now (ms).
-- Returns {} if the state is not cached, else { epoch, unread messages, unread mentions }.
local epoch = current_epoch()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'total', 'mentions')
touch()
return { epoch, tonumber(meta[1]) or 0, tonumber(meta[2]) or 0 }
