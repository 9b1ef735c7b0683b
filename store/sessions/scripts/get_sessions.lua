-- Returns some of a user's sessions, or the names of all groups that the user is a member of.
-- ARGV: now (ms), conversations (none: all groups).
-- Returns {} if the state is not cached, else { epoch, clock, total, ... } with a record or '' for each conversation,
-- or with the names.
local first_conversation = 2
local epoch = current_epoch()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
if #ARGV >= first_conversation then
  for _, text in ipairs(redis.call('HMGET', SESSIONS, unpack(ARGV, first_conversation))) do
    answer[#answer + 1] = text or ''
  end
else
  local all = redis.call('HGETALL', SESSIONS)
  for i = 1, #all, 2 do
    local conversation, text = all[i], all[i + 1]
    if string.sub(conversation, 1, 2) == 'g_' then
      local record = cjson.decode(text)
      if not record[LAST_READABLE_SEQ] and not record[DISSOLVED] then answer[#answer + 1] = conversation end
    end
  end
end
touch()
return answer
