-- Lists the entries of outboxes that have waited for some time.
-- KEYS: outboxes. ARGV: that time (ms), largest number of entries of each outbox.
-- Returns { now (ms, by Redis's clock), entry, ... }, each entry as XRANGE returns it.
local waiting_ms, limit = tonumber(ARGV[1]), ARGV[2]
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local latest, answer = string.format('%.0f', now_ms - waiting_ms), { string.format('%.0f', now_ms) }
for _, outbox in ipairs(KEYS) do
  for _, entry in ipairs(redis.call('XRANGE', outbox, '-', latest, 'COUNT', limit)) do answer[#answer + 1] = entry end
end
return answer
