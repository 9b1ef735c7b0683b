-- What moved past a position on the clock, oldest first. ARGV: now (ms), position (ms), how many, only valid ones (0/1).
-- Answers {} where the state isn't loaded, else {epoch, clock, total, conversation, record, ...}.
local epoch = loaded()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
local after, wanted, only_valid = '(' .. int(tonumber(ARGV[2])), tonumber(ARGV[3]), ARGV[4] == '1'
local offset = 0
while wanted > 0 do
  local names = redis.call('ZRANGEBYSCORE', INDEX, after, '+inf', 'LIMIT', offset, wanted)
  if #names == 0 then break end
  for i, text in ipairs(redis.call('HMGET', SESSIONS, unpack(names))) do
    if not only_valid or valid(names[i], cjson.decode(text)) then
      answer[#answer + 1] = names[i]
      answer[#answer + 1] = text
      wanted = wanted - 1
    end
  end
  offset = offset + #names
end
touch()
return answer
