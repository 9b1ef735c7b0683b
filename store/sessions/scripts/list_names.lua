-- Returns the conversations of a list.
-- ARGV: now (ms), list (_lists.lua).
-- Returns {} if the state is not cached, else { epoch, conversation, ... }.
local list = ARGV[2]
local epoch = current_epoch()
if not epoch then return {} end
local answer = { epoch }
for i, entry in ipairs(redis.call('ZRANGEBYLEX', LIST, '[' .. list .. '\n', '(' .. list .. '\n~')) do
  answer[i + 1] = string.match(entry, '^[^\n]*\n%d+\n(.*)$')
end
touch()
return answer
