-- The conversations in a list. ARGV: now (ms), list. Answers {} where the state isn't loaded, else {epoch, conversation, ...}.
local epoch = loaded()
if not epoch then return {} end
local answer = { epoch }
for i, name in ipairs(redis.call('ZRANGEBYLEX', LIST, '[' .. ARGV[2] .. '\n', '(' .. ARGV[2] .. '\n~')) do
  answer[i + 1] = string.match(name, '^[^\n]*\n%d+\n(.*)$')
end
touch()
return answer
