-- Claims the loading of a head.
-- ARGV: token of the claim, duration of the claim (ms), with the members (0/1).
-- Returns loaded, busy (another server loads it), or go.
local token, claim_ms, with_members = ARGV[1], ARGV[2], ARGV[3] == '1'

local is_cached = head_exists()
if is_cached and (not with_members or is_loaded()) then return 'loaded' end
if redis.call('SET', LOADING, token .. (is_cached and '+' or ''), 'NX', 'PX', claim_ms) then return 'go' end
return 'busy'
