-- Returns one page of a list, newest position first.
-- ARGV: now (ms), list (_lists.lua), limit, position and conversation to continue after, or '' and ''.
-- Returns {} if the state is not cached, else { epoch, clock, total, position, conversation, record, ... }.
local list, limit, after_position, after_conversation = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local epoch = current_epoch()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
local from = list .. '\n~'
if after_position ~= '' then from = list_entry(list, tonumber(after_position), after_conversation) end
local entries = redis.call('ZREVRANGEBYLEX', LIST, '(' .. from, '[' .. list .. '\n', 'LIMIT', 0, limit)
local conversations = {}
for i, entry in ipairs(entries) do
  answer[3 * i + 1], conversations[i] = string.match(entry, '^[^\n]*\n(%d+)\n(.*)$')
end
local records = #entries > 0 and redis.call('HMGET', SESSIONS, unpack(conversations)) or {}
for i, conversation in ipairs(conversations) do
  answer[3 * i + 2], answer[3 * i + 3] = conversation, records[i]
end
touch()
return answer
