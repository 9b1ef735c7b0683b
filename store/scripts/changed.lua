-- What moved past a position on the clock, oldest first. ARGV: position (ms), conversation at that position or '',
-- how many, only valid ones (0/1).
-- Answers {} where the state isn't loaded, else {epoch, clock, total, conversation, record, ...}.
local epoch = loaded()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) }
local after, name, wanted, only_valid = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local offset = 0
while wanted > 0 do
  local rows = redis.call('ZRANGEBYSCORE', INDEX, int(after), '+inf', 'WITHSCORES', 'LIMIT', offset, wanted + 1)
  if #rows == 0 then break end
  for i = 1, #rows, 2 do
    local passed = tonumber(rows[i + 1]) == after and rows[i] <= name
    if not passed and wanted > 0 then
      local text = redis.call('HGET', SESSIONS, rows[i])
      if not only_valid or valid(rows[i], cjson.decode(text)) then
        answer[#answer + 1] = rows[i]
        answer[#answer + 1] = text
        wanted = wanted - 1
      end
    end
  end
  offset = offset + #rows / 2
end
touch()
return answer
