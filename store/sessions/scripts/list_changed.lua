-- Returns the sessions that moved after a position on the user's clock, oldest change first.
-- ARGV: now (ms), position (ms), limit, position up to which only valid sessions are returned (ms), kind: '1' for the
-- sessions of channels, '0' for all others.
-- Returns {} if the state is not cached, else { epoch, clock, total, conversation, record, ... }; for channels
-- { epoch, clock, total, mentions, number of followed channels, followed channel, ..., conversation, record, ... }.
local after, remaining, valid_until = int(tonumber(ARGV[2])), tonumber(ARGV[3]), tonumber(ARGV[4])
local wants_channels = ARGV[5] == '1'
local epoch = current_epoch()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
if wants_channels then
  local followed = redis.call('ZRANGEBYLEX', LIST, '[' .. FOLLOWED, '(' .. FOLLOWED .. '~')
  answer[4], answer[5] = tonumber(redis.call('HGET', META, 'mentions')) or 0, #followed
  for i, entry in ipairs(followed) do answer[5 + i] = string.match(entry, '^[^\n]*\n%d+\n(.*)$') end
end
local step = (valid_until > 0 or wants_channels) and math.max(remaining, 500) or remaining
while remaining > 0 do
  local rows = redis.call('ZRANGEBYSCORE', INDEX, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, step)
  if #rows == 0 then break end
  local conversations, ticks = {}, {}
  for i = 1, #rows, 2 do
    after = rows[i + 1]
    if is_channel(rows[i]) == wants_channels then
      conversations[#conversations + 1], ticks[#ticks + 1] = rows[i], tonumber(after)
    end
  end
  local texts = #conversations > 0 and redis.call('HMGET', SESSIONS, unpack(conversations)) or {}
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
