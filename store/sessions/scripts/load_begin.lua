-- Claims the loading of a user's state. ARGV: now (ms), token, milliseconds the claim lasts.
-- Answers loaded, busy (somebody else is at it) or go. loading, a hash: token, pending (how much waits in that list).
if loaded() then return 'loaded' end
if redis.call('HSETNX', LOADING, 'token', ARGV[2]) == 0 then return 'busy' end
redis.call('PEXPIRE', LOADING, ARGV[3])
redis.call('DEL', PENDING)
forget()
return 'go'
