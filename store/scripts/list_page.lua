-- One page of the display order, newest position first. ARGV: how many, position to go on after or '', its conversation.
-- Answers {} where the state isn't loaded, else {epoch, clock, total, conversation, record, position, ...}.
local epoch = loaded()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) }
local wanted, after, skip = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local from, offset = '+inf', 0
if after ~= '' then from = after end
while wanted > 0 do
  local rows = redis.call('ZREVRANGEBYSCORE', LIST, from, '-inf', 'WITHSCORES', 'LIMIT', offset, wanted + 1)
  if #rows == 0 then break end
  for i = 1, #rows, 2 do
    -- Equal positions are ordered by name, descending: those up to the cursor's own were on an earlier page.
    local passed = after ~= '' and tonumber(rows[i + 1]) == tonumber(after) and rows[i] >= skip
    if not passed and wanted > 0 then
      answer[#answer + 1] = rows[i]
      answer[#answer + 1] = redis.call('HGET', SESSIONS, rows[i])
      answer[#answer + 1] = int(tonumber(rows[i + 1]))
      wanted = wanted - 1
    end
  end
  offset = offset + #rows / 2
end
touch()
return answer
