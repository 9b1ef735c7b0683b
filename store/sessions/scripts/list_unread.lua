-- Returns the sessions with countable messages after the read position, and those that were marked unread, without
-- channels. Some of them may have been deleted or read since. Most records are not decoded: a call goes through all.
-- ARGV: now (ms).
-- Returns {} if the state is not cached, else { epoch, conversation, record, ... }.
local epoch = current_epoch()
if not epoch then return {} end
local answer = { epoch }
local all = redis.call('HGETALL', SESSIONS)
for i = 1, #all, 2 do
  local conversation, text = all[i], all[i + 1]
  local n, read_n = string.match(text, COUNTS_PATTERN)
  if not is_gateway(conversation) and (not n or n ~= read_n or string.find(text, HAS_UNREAD_MARK, 1, true)) then
    answer[#answer + 1], answer[#answer + 2] = conversation, text
  end
end
touch()
return answer
