-- What moved past a position on the clock, oldest first. ARGV: now (ms), position (ms), how many, up to which position only what
-- is valid. Answers {} where the state isn't loaded, else {epoch, clock, total, conversation, record, ...}.
local epoch = loaded()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
local after, wanted, valid_until = int(tonumber(ARGV[2])), tonumber(ARGV[3]), tonumber(ARGV[4])
local step = valid_until > 0 and math.max(wanted, 500) or wanted
while wanted > 0 do
  local rows = redis.call('ZRANGEBYSCORE', INDEX, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, step)
  if #rows == 0 then break end
  local names = {}
  for i = 1, #rows, 2 do names[#names + 1] = rows[i] end
  for i, text in ipairs(redis.call('HMGET', SESSIONS, unpack(names))) do
    after = rows[2 * i]
    if tonumber(after) > valid_until or valid(names[i], cjson.decode(text)) then
      answer[#answer + 1] = names[i]
      answer[#answer + 1] = text
      wanted = wanted - 1
      if wanted == 0 then break end
    end
  end
end
touch()
return answer
