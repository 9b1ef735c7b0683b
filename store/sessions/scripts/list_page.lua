-- One page of a list, newest position first. ARGV: now (ms), list, how many, position and conversation to go on after or ''.
-- Answers {} where the state isn't loaded, else {epoch, clock, total, position, conversation, record, ...}.
local epoch = loaded()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
local list, after = ARGV[2], ARGV[4]
local from = '(' .. (after == '' and list .. '\n~' or place(list, tonumber(after), ARGV[5]))
local names, conversations = redis.call('ZREVRANGEBYLEX', LIST, from, '[' .. list .. '\n', 'LIMIT', 0, ARGV[3]), {}
for i, name in ipairs(names) do
  answer[3 * i + 1], conversations[i] = string.match(name, '^[^\n]*\n(%d+)\n(.*)$')
end
local records = #names > 0 and redis.call('HMGET', SESSIONS, unpack(conversations)) or {}
for i, conversation in ipairs(conversations) do
  answer[3 * i + 2], answer[3 * i + 3] = conversation, records[i]
end
touch()
return answer
