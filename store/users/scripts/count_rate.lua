-- Counts a user's actions against a rate.
-- KEYS: the rate: how far in the future (microseconds) the user's budget is full again, and the time by Redis's clock
-- at which that was computed. A clock that is set back, or a replica's that is behind, adds nothing to it.
-- ARGV: cost of each action (microseconds), number of actions.
-- Returns how far in the future (microseconds) the budget is full again. The value is not limited.
local rate, cost_us, count = KEYS[1], ARGV[1], ARGV[2]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local stored_us, stored_at_us = string.match(redis.call('GET', rate) or '', '^(%d+) (%d+)$')
local ahead_us = cost_us * count
if stored_us then
  local elapsed_us = math.max(0, now_us - tonumber(stored_at_us))
  ahead_us = ahead_us + math.max(0, tonumber(stored_us) - elapsed_us)
end
redis.call('SET', rate, string.format('%.0f %.0f', ahead_us, now_us), 'PX', math.ceil(ahead_us / 1000))
return ahead_us
