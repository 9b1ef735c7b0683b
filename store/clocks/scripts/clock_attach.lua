-- Registers that connections of a server look at a shared clock. Begins the clock if there is none.
-- ARGV: now (ms), server, time until which the registration is valid (ms).
-- Returns { epoch, clock }.
local server, until_ms = ARGV[2], ARGV[3]
local epoch, clock = open_clock()
redis.call('ZREMRANGEBYSCORE', ROUTES, '-inf', '(' .. int(NOW))
if redis.call('ZADD', ROUTES, until_ms, server) == 1 then redis.call('PEXPIRE', ROUTES, CLOCK_IDLE_MS) end
return { epoch, int(clock) }
