-- Raises the policy version of a workspace after it was raised in MongoDB.
-- ARGV: policy version.
-- Returns 1.
local version = ARGV[1]

store_policy_version(version)
-- The server that loads it may have read MongoDB before the change: it must not store what it has read.
redis.call('DEL', LOADING)
return 1
