-- Stores the policy version of a workspace as MongoDB has it, unless a change of rights has cancelled the load.
-- ARGV: token of the load, policy version.
-- Returns 1, or 0 if the load was cancelled.
local token, version = ARGV[1], ARGV[2]

if redis.call('GET', LOADING) ~= token then return 0 end
redis.call('DEL', LOADING)
store_policy_version(version)
return 1
