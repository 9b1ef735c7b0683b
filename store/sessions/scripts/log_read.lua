-- The events after a position, oldest first. ARGV: now (ms), position (ms), epoch it was given in, how many.
-- Answers {} where the state isn't loaded, {epoch, clock, 0} where the log does not reach back that far,
-- else {epoch, clock, 1, tick, previous, event, ...}.
local epoch = loaded()
if not epoch then return {} end
local clock = redis.call('HGET', META, 'clock')
local since = tonumber(ARGV[2])
if ARGV[3] ~= epoch or since > tonumber(clock) then return { epoch, clock, 0 } end
local rows = redis.call('XRANGE', LOG, '(' .. int(since) .. '-0', '+', 'COUNT', ARGV[4])
if since < tonumber(clock) then
  -- Whole only if the first event after the position follows directly on something at or before it.
  if #rows == 0 or tonumber(rows[1][2][2]) > since then return { epoch, clock, 0 } end
end
local answer = { epoch, clock, 1 }
for _, row in ipairs(rows) do
  answer[#answer + 1] = string.match(row[1], '^(%d+)-')
  answer[#answer + 1] = row[2][2]
  answer[#answer + 1] = row[2][4]
end
return answer
