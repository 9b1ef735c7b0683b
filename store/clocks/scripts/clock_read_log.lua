-- Returns the events after a position on a shared clock, oldest first.
-- ARGV: now (ms), position (ms), epoch of the position ('': any that had begun by then), limit.
-- Returns { epoch, clock, 0 } if the log does not reach back that far, or the position is in the future, else
-- { epoch, clock, 1, tick, log entry, policy version, ... }.
local position, position_epoch, limit = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local epoch, clock = open_clock()
local begin = tonumber(redis.call('HGET', META, 'begin'))
if position_epoch ~= '' and position_epoch ~= epoch or position > clock or position < begin then
  return { epoch, int(clock), 0 }
end
local rows = {}
if position < clock then
  rows = redis.call('XRANGE', LOG, '(' .. int(position) .. '-0', '+', 'COUNT', limit)
  -- Complete only if the first event after the position follows directly on one at or before it.
  if #rows == 0 or tonumber(rows[1][2][2]) > position then return { epoch, int(clock), 0 } end
end
local answer = { epoch, int(clock), 1 }
for _, row in ipairs(rows) do
  local id, fields = row[1], row[2]
  answer[#answer + 1] = string.match(id, '^(%d+)-')
  answer[#answer + 1] = fields[4]
  answer[#answer + 1] = fields[6]
end
return answer
