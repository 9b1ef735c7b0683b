-- Returns the clock and the newest known policy version, of one moment. Begins the clock if there is none.
-- ARGV: now (ms).
-- Returns { epoch, clock, policy version or '' }.
local epoch, clock = open_clock()
return { epoch, int(clock), redis.call('HGET', META, 'pv') or '' }
