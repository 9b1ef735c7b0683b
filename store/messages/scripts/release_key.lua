-- Releases an idempotency key if it has the given claim.
-- KEYS: the key. ARGV: claim (JSON).
-- Returns 1.
local key, claim = KEYS[1], ARGV[1]

if redis.call('GET', key) == claim then redis.call('DEL', key) end
return 1
