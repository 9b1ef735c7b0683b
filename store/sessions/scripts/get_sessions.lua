-- Returns some of a user's sessions, or the names of all groups that the user is a member of.
-- ARGV: now (ms), conversations (none: all groups).
-- Returns {} if the state is not cached, { epoch } if sessions in channels are wanted and not loaded, else { epoch,
-- clock, total, ... } with a record or '' for each conversation, or with the names.
local first_conversation = 2
local epoch = current_epoch()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer, is_loaded = { epoch, meta[1], tonumber(meta[2]) or 0 }, nil
if #ARGV >= first_conversation then
  for i, text in ipairs(redis.call('HMGET', SESSIONS, unpack(ARGV, first_conversation))) do
    local conversation = ARGV[first_conversation + i - 1]
    if is_channel(conversation) then
      if is_loaded == nil then is_loaded = find_channels() end
      if is_loaded == nil then return {} end
      if not is_loaded then return { epoch } end
      text = redis.call('HGET', TAG .. 'channels', conversation)
    end
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
