-- Counts what a user did against their rate. KEYS: the rate. ARGV: microseconds that each takes to be made up for, how many.
-- The value is the moment (microseconds, Redis's own time) at which all of it will have been made up for; it may lie as far ahead as
-- servers have let through. Answers how far ahead that is.
local now = redis.call('TIME')
local at = now[1] * 1000000 + now[2]
local until_us = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), at) + ARGV[1] * ARGV[2]
redis.call('SET', KEYS[1], string.format('%.0f', until_us), 'PX', math.ceil((until_us - at) / 1000))
return until_us - at
