-- Returns events of a shared clock after a position, oldest first; after the earliest position that can be resumed, if
-- that is later.
-- ARGV: now (ms), position (tick), limit.
-- Returns { epoch, clock, earliest position that can be resumed, tick, log entry, policy version, channel or '', ... }.
local position, limit = tonumber(ARGV[2]), ARGV[3]
local epoch, clock = open_clock()
local oldest = redis.call('XRANGE', LOG, '-', '+', 'COUNT', 1)[1]
-- Redis removes the oldest events, or the whole log. Each event names the tick before it.
local earliest = oldest and tonumber(oldest[2][2]) or clock
local answer = { epoch, int(clock), int(earliest) }
if position < clock then
  local after = '(' .. int(math.max(position, earliest)) .. '-0'
  for _, row in ipairs(redis.call('XRANGE', LOG, after, '+', 'COUNT', limit)) do
    local id, fields = row[1], row[2]
    answer[#answer + 1] = string.match(id, '^(%d+)-')
    answer[#answer + 1] = fields[4]
    answer[#answer + 1] = fields[6]
    answer[#answer + 1] = fields[8]
  end
end
return answer
