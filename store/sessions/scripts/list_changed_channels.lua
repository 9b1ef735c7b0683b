-- Returns the sessions in channels that moved after a position on the user's clock, oldest change first, and what else
-- the user has in channels.
-- ARGV: now (ms), position (ms), limit.
-- Returns {} if the state is not cached, { epoch } if sessions in channels are not loaded, else { epoch, clock, total,
-- unread mentions elsewhere, unread threads, number of channels with mentions, number of mentions and channel in turn,
-- ..., number of followed channels, followed channel, ..., conversation, record, ... }.
local after, limit = ARGV[2], ARGV[3]
local epoch = current_epoch()
if not epoch then return {} end
local is_loaded = find_channels()
if is_loaded == nil then return {} end
if not is_loaded then return { epoch } end
local meta = redis.call('HMGET', META, 'clock', 'total', 'mentions', 'threads')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0, tonumber(meta[3]) or 0, tonumber(meta[4]) or 0 }
add_mentions(answer)
local followed = redis.call('ZRANGEBYLEX', TAG .. 'channel_list', '[' .. FOLLOWED, '(' .. FOLLOWED .. '~')
answer[#answer + 1] = #followed
for _, entry in ipairs(followed) do answer[#answer + 1] = string.match(entry, '^[^\n]*\n%d+\n(.*)$') end
local channels = redis.call('ZRANGEBYSCORE', TAG .. 'channel_index', '(' .. after, '+inf', 'LIMIT', 0, limit)
for i, text in ipairs(#channels > 0 and redis.call('HMGET', TAG .. 'channels', unpack(channels)) or {}) do
  answer[#answer + 1], answer[#answer + 2] = channels[i], text
end
touch()
return answer
