-- Claims the loading of a head.
-- ARGV: token of the claim, duration of the claim (ms), with the members (0/1), to write in a group (0/1),
-- conversation.
-- Returns loaded, busy (another server loads it), go, or go_named: the loader stores the name of this load in MongoDB
-- before it reads, because messages and changes may be in flight that Redis has lost.
local token, claim_ms, with_members, to_write = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4] == '1'
local conversation = ARGV[5]

local is_cached = head_exists()
local is_named = not to_write or redis.call('HEXISTS', HEAD, HEAD_LOAD) == 1
if is_cached and (not with_members or is_loaded()) and is_named then return 'loaded' end
if not redis.call('SET', LOADING, token .. (is_cached and '+' or ''), 'NX', 'PX', claim_ms) then return 'busy' end
return (is_named or find_reserved_load(conversation)) and 'go' or 'go_named'
