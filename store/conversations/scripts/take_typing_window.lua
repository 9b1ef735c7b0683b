-- Takes a window in which a user's typing is announced once.
-- KEYS: the window: when it began (ms), with a minus sign if the typing has ended since.
-- ARGV: now (ms), duration of a window (ms), time for which clients show that a user is typing (ms).
-- Returns 1 if the window was free, else 0.
-- Windows are compared by the deployment's clock. Redis expires the key by its own clock, so later than needed.
local window, now_ms, window_ms, shown_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local began_ms = tonumber(redis.call('GET', window))
if began_ms and math.abs(now_ms - math.abs(began_ms)) < window_ms then return 0 end
redis.call('SET', window, ARGV[1], 'PX', 2 * shown_ms)
return 1
