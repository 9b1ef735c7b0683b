-- Counts requests of a user against a rate (GCRA: a leaky bucket kept as one point in time).
-- KEYS[1]: the rate. Its value is two numbers of microseconds: how far ahead of now the point lies at which all counted
--   requests are made up for, and the time (Redis's own) of that statement. So a clock that is set back, or a replica
--   whose clock is behind, adds nothing. The point may lie as far ahead as servers have let requests through.
-- ARGV: microseconds that one request takes to be made up for; number of requests to count.
-- Returns the microseconds until all counted requests are made up for.
local request_us, requests = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = redis.call('TIME')
local now_us = now[1] * 1000000 + now[2]
local stored_ahead_us, stored_at_us = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
local ahead_us = request_us * requests
if stored_ahead_us then
  ahead_us = ahead_us + math.max(0, tonumber(stored_ahead_us) - math.max(0, now_us - tonumber(stored_at_us)))
end
redis.call('SET', KEYS[1], string.format('%.0f %.0f', ahead_us, now_us), 'PX', math.ceil(ahead_us / 1000))
return ahead_us
