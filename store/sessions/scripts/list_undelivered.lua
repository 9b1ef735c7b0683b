-- Returns the sessions with messages that are not delivered.
-- ARGV: now (ms).
-- Returns {} if the state is not cached, else { epoch, conversation, record, ... }.
local RECORDS_AT_ONCE = 1000
local epoch = current_epoch()
if not epoch then return {} end
local answer, conversations = { epoch }, {}
local function take_records()
  if #conversations == 0 then return end
  for i, text in ipairs(redis.call('HMGET', SESSIONS, unpack(conversations))) do
    answer[#answer + 1] = conversations[i]
    answer[#answer + 1] = text
  end
  conversations = {}
end
for _, entry in ipairs(redis.call('ZRANGEBYLEX', LIST, '[o\n', '(o\n~')) do
  conversations[#conversations + 1] = string.match(entry, '^[^\n]*\n%d+\n(.*)$')
  if #conversations == RECORDS_AT_ONCE then take_records() end
end
take_records()
touch()
return answer
