-- Returns the clock and the newest known policy version, of one moment. Begins the clock if there is none.
-- ARGV: now (ms).
-- Returns { epoch, clock, policy version or '', the clock when the epoch began, age of the epoch by the time of Redis
-- (us) }.
local epoch, clock = open_clock()
local meta, time = redis.call('HMGET', META, 'pv', 'begin'), redis.call('TIME')
local seconds, us = string.match(epoch, '^(%d+)%.(%d+)$')
local age_us = (tonumber(time[1]) - tonumber(seconds)) * 1000000 + tonumber(time[2]) - tonumber(us)
return { epoch, int(clock), meta[1] or '', meta[2], int(age_us) }
