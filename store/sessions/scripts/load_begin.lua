-- Claims the load of a user's state.
-- ARGV: now (ms), token of the loader, time that the claim lasts (ms).
-- Returns 'loaded' (nothing to do), 'busy' (another loader has the claim) or 'go'.
local token, claim_ms = ARGV[2], ARGV[3]
if current_epoch('events') then return 'loaded' end
if redis.call('HSETNX', LOADING, 'token', token) == 0 then return 'busy' end
redis.call('PEXPIRE', LOADING, claim_ms)
redis.call('DEL', PENDING)
drop_state()
return 'go'
