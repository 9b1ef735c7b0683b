-- The sessions in which messages wait to be received. ARGV: now (ms).
-- Answers {} where the state isn't loaded, else {epoch, conversation, record, ...}.
local AT_ONCE = 1000
local epoch = loaded()
if not epoch then return {} end
local answer, names = { epoch }, {}
local function take()
  for i, text in ipairs(#names > 0 and redis.call('HMGET', SESSIONS, unpack(names)) or {}) do
    answer[#answer + 1] = names[i]
    answer[#answer + 1] = text
  end
  names = {}
end
for _, name in ipairs(redis.call('ZRANGEBYLEX', LIST, '[o\n', '(o\n~')) do
  names[#names + 1] = string.match(name, '^[^\n]*\n%d+\n(.*)$')
  if #names == AT_ONCE then take() end
end
take()
touch()
return answer
