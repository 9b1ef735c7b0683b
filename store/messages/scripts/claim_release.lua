-- Gives an idempotency key back if it is still claimed as given. KEYS: the key. ARGV: claim.
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
