-- Ends the typing that was announced last, at most once.
-- KEYS: the window of take_typing_window.lua.
-- ARGV: now (ms), time for which clients show that a user is typing (ms).
-- Returns 1 if clients may still show it; 2 if only clients of INVISIBLE users may; else 0. The window
-- stays taken.
local window, now_ms, shown_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])

local began_ms, unseen = string.match(redis.call('GET', window) or '', '^(%d+)(u?)$')
if not began_ms or math.abs(now_ms - tonumber(began_ms)) >= shown_ms then return 0 end
redis.call('SET', window, '-' .. began_ms .. unseen, 'PX', 2 * shown_ms)
return unseen == 'u' and 2 or 1
