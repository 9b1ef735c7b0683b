-- Returns the events after a position on the user's clock, oldest first.
-- ARGV: now (ms), position (ms), epoch of the position, limit.
-- Returns {} if the state is not cached, { epoch, clock, 0 } if the log does not reach back that far, else
-- { epoch, clock, 1, tick, tick before, log entry, ... }.
local position, position_epoch, limit = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local epoch = current_epoch('events')
if not epoch then return {} end
local clock = redis.call('HGET', META, 'clock')
if position_epoch ~= epoch or position > tonumber(clock) then return { epoch, clock, 0 } end
local rows = redis.call('XRANGE', LOG, '(' .. int(position) .. '-0', '+', 'COUNT', limit)
if position < tonumber(clock) then
  -- Complete only if the first event after the position follows directly on one at or before it.
  if #rows == 0 or tonumber(rows[1][2][2]) > position then return { epoch, clock, 0 } end
end
local answer = { epoch, clock, 1 }
for _, row in ipairs(rows) do
  local id, previous, entry = row[1], row[2][2], row[2][4]
  answer[#answer + 1] = string.match(id, '^(%d+)-')
  answer[#answer + 1] = previous
  answer[#answer + 1] = entry
end
return answer
