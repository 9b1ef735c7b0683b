-- Claims an idempotency key. KEYS: the key. ARGV: claim (JSON), milliseconds it lasts.
-- Answers '' if it is ours now, else the claim that was there.
local held = redis.call('GET', KEYS[1])
if held then return held end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ''
