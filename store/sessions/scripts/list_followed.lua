-- Returns the sessions of channels that the user follows, in no order.
-- ARGV: now (ms), list (_lists.lua): of one workspace, or the prefix of all these lists.
-- Returns {} if the state is not cached, { epoch } if sessions in channels are not loaded, else { epoch, clock, total,
-- conversation, record, ... }.
local list = ARGV[2]
local SESSIONS_AT_ONCE = 1000
local epoch = current_epoch()
if not epoch then return {} end
local is_loaded = find_channels()
if is_loaded == nil then return {} end
if not is_loaded then return { epoch } end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
local last = list == FOLLOWED and list .. '~' or list .. '\n~'
local first = list == FOLLOWED and list or list .. '\n'
local conversations = {}
for i, entry in ipairs(redis.call('ZRANGEBYLEX', TAG .. 'channel_list', '[' .. first, '(' .. last)) do
  conversations[i] = string.match(entry, '^[^\n]*\n%d+\n(.*)$')
end
for i = 1, #conversations, SESSIONS_AT_ONCE do
  local part = { unpack(conversations, i, math.min(i + SESSIONS_AT_ONCE - 1, #conversations)) }
  for j, text in ipairs(redis.call('HMGET', TAG .. 'channels', unpack(part))) do
    answer[#answer + 1], answer[#answer + 2] = part[j], text
  end
end
touch()
return answer
