-- Ends the typing that was announced last, at most once.
-- KEYS: the window of take_typing_window.lua.
-- ARGV: now (ms), time for which clients show that a user is typing (ms).
-- Returns 1 if clients may still show it, else 0. The window stays taken.
local window, now_ms, shown_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])

local began_ms = tonumber(redis.call('GET', window))
if not began_ms or began_ms < 0 or math.abs(now_ms - began_ms) >= shown_ms then return 0 end
redis.call('SET', window, '-' .. string.format('%.0f', began_ms), 'PX', 2 * shown_ms)
return 1
