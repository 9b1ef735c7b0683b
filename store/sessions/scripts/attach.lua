-- Registers that a server holds connections of the user.
-- ARGV: now (ms), server, time until which the registration is valid (ms).
-- Returns {} if the state is not cached, { epoch } if the mute of a session in a channel may end by itself and these
-- sessions are not loaded (nothing is registered then), else { epoch, clock, end of the next mute or '' }.
local server, until_ms = ARGV[2], ARGV[3]
local epoch = current_epoch('events')
if not epoch then return {} end
if redis.call('HEXISTS', META, 'channel_mutes') == 1 then
  local is_loaded = find_channels()
  if is_loaded == nil then return {} end
  if not is_loaded then return { epoch } end
end
restore_routes()
if redis.call('ZADD', ROUTES, until_ms, server) == 1 then key_created = true end
copy_routes()
touch()
local meta = redis.call('HMGET', META, 'clock', 'due')
return { epoch, meta[1], meta[2] or '' }
