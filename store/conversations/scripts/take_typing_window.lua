-- Takes a window in which a user's typing is announced once.
-- KEYS: the window. ARGV: now (ms), duration of a window (ms).
-- Returns 1 if the window was free, else 0.
-- Windows are compared by the deployment's clock. Redis expires the key by its own clock, so later than needed.
local window, now_ms, window_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])

local began_ms = tonumber(redis.call('GET', window))
if began_ms and math.abs(now_ms - began_ms) < window_ms then return 0 end
redis.call('SET', window, ARGV[1], 'PX', 2 * window_ms)
return 1
