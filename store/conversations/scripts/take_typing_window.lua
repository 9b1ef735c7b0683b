-- Takes a window in which a user's typing is announced once.
-- KEYS: the window: when it began (ms), with a minus sign if the typing has ended since, and with a "u" at the end if
-- nobody saw the announcement.
-- ARGV: now (ms), duration of a window (ms), time for which clients show that a user is typing (ms).
-- Returns 1 if the window was free, and is taken now; 2 if it is taken, but nobody saw the announcement; else 0.
-- Windows are compared by the deployment's clock. Redis expires the key by its own clock, so later than needed.
local window, now_ms, window_ms, shown_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local began_ms, unseen = string.match(redis.call('GET', window) or '', '^%-?(%d+)(u?)$')
if began_ms and math.abs(now_ms - tonumber(began_ms)) < window_ms then return unseen == 'u' and 2 or 0 end
redis.call('SET', window, ARGV[1], 'PX', 2 * shown_ms)
return 1
