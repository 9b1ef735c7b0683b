-- Forgets a head that MongoDB contradicts. The next writer loads it anew. ARGV: seq that was taken.
-- One that has moved past that seq meanwhile was loaded anew already: it stays.
local s = tonumber(redis.call('HGET', HEAD, 's'))
if s ~= nil and s <= tonumber(ARGV[1]) then redis.call('DEL', HEAD, MEMBERS) end
-- Who is loading it may have read MongoDB before that message was there.
redis.call('DEL', LOADING)
return 1
