-- Returns the sums over a user's valid sessions that are not muted, without channels.
-- ARGV: now (ms), '1' if the mentions in channels are wanted.
-- Returns {} if the state is not cached, { epoch } if sessions in channels are wanted and not loaded, else { epoch,
-- unread messages, unread mentions, unread threads }, and if they are wanted: number of channels, number of mentions
-- and channel in turn.
local wants_channels = ARGV[2] == '1'
local epoch = current_epoch()
if not epoch then return {} end
local is_loaded = not wants_channels or find_channels()
if is_loaded == nil then return {} end
if not is_loaded then return { epoch } end
local meta = redis.call('HMGET', META, 'total', 'mentions', 'threads')
local answer = { epoch, tonumber(meta[1]) or 0, tonumber(meta[2]) or 0, tonumber(meta[3]) or 0 }
if wants_channels then add_mentions(answer) end
touch()
return answer
