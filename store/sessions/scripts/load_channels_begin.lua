-- Claims the load of a user's sessions in channels. The rest of the state has to be cached.
-- ARGV: now (ms), token of the loader, time that the claim lasts (ms).
-- Returns 'not_cached' (load the state first), 'loaded' (nothing to do), 'busy' (another loader has the claim) or 'go'.
local token, claim_ms = ARGV[2], ARGV[3]
local loading = TAG .. 'channels_loading'
local epoch = current_epoch('events')
if not epoch then return 'not_cached' end
local is_loaded = find_channels()
if is_loaded == nil then return 'not_cached' end
if is_loaded then return 'loaded' end
if redis.call('HSETNX', loading, 'token', token) == 0 then return 'busy' end
redis.call('HSET', loading, 'epoch', epoch)
redis.call('PEXPIRE', loading, claim_ms)
redis.call('DEL', TAG .. 'channels_pending')
drop_channels()
return 'go'
