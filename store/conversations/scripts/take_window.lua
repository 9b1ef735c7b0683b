-- Begins the publication that claim_window has announced.
-- KEYS: window, due: see claim_window. ARGV: interval (ms).
-- Returns the outbox entries that the publication covers; none: another server has taken them, and publishes.
local window, due, interval_ms = KEYS[1], KEYS[2], ARGV[1]

local entries = redis.call('LRANGE', due, 0, -1)
if #entries == 0 then return entries end
redis.call('DEL', due)
redis.call('SET', window, '', 'PX', interval_ms)
return entries
