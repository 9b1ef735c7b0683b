-- Returns the sessions that moved after a position on the user's clock, oldest change first, without channels.
-- ARGV: now (ms), position (ms), limit, position up to which only valid sessions are returned (ms).
-- Returns {} if the state is not cached, else { epoch, clock, total, conversation, record, ... }.
local after, remaining, valid_until = int(tonumber(ARGV[2])), tonumber(ARGV[3]), tonumber(ARGV[4])
local epoch = current_epoch()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
local step = valid_until > 0 and math.max(remaining, 500) or remaining
while remaining > 0 do
  local rows = redis.call('ZRANGEBYSCORE', INDEX, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, step)
  if #rows == 0 then break end
  local conversations, ticks = {}, {}
  for i = 1, #rows, 2 do
    after = rows[i + 1]
    conversations[#conversations + 1], ticks[#ticks + 1] = rows[i], tonumber(after)
  end
  local texts = redis.call('HMGET', SESSIONS, unpack(conversations))
  for i, text in ipairs(texts) do
    if ticks[i] > valid_until or is_valid(conversations[i], cjson.decode(text)) then
      answer[#answer + 1] = conversations[i]
      answer[#answer + 1] = text
      remaining = remaining - 1
      if remaining == 0 then break end
    end
  end
end
touch()
return answer
