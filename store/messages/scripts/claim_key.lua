-- Claims an idempotency key.
-- KEYS: the key. ARGV: claim (JSON), duration of the claim (ms).
-- Returns '' if the key is the caller's now, else the claim (JSON) that it had.
local key, claim, claim_ms = KEYS[1], ARGV[1], ARGV[2]

local existing = redis.call('GET', key)
if existing then return existing end
redis.call('SET', key, claim, 'PX', claim_ms)
return ''
