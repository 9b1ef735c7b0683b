-- Takes a window in which a user's typing is told once. KEYS: the window. ARGV: now (ms), how long it lasts (ms).
-- 1: it was free. The clock that compares is the deployment's: Redis keeps the key for longer, and by its own.
local now, lasts = tonumber(ARGV[1]), tonumber(ARGV[2])
local began = tonumber(redis.call('GET', KEYS[1]))
if began and math.abs(now - began) < lasts then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', 2 * lasts)
return 1
