-- Claims the quiet pushes of a user for an interval. Returns 0, or the time to wait (ms) if it is claimed already.
-- KEYS[1]: the times of the last quiet pushes, by user. ARGV: now (ms), the interval (ms), the user.
local times = KEYS[1]
local now_ms, interval_ms, user = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

redis.call('ZREMRANGEBYSCORE', times, '-inf', now_ms - interval_ms)
local last_ms = redis.call('ZSCORE', times, user)
if last_ms then return tonumber(last_ms) + interval_ms - now_ms end
redis.call('ZADD', times, now_ms, user)
return 0
