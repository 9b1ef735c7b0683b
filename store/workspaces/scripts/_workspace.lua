-- Functions on the keys of one workspace, which carry its hash tag.
-- KEYS:
--   META     hash: epoch and clock of the workspace, and its policy version
--   LOADING  string: token of the server that loads the policy version from MongoDB
local META, LOADING = KEYS[1], KEYS[2]
local IDLE_MS = 24 * 3600 * 1000

-- Stores a policy version, unless a later one is stored. Keeps it for a day at least.
local function store_policy_version(version)
  local stored = tonumber(redis.call('HGET', META, META_POLICY_VERSION))
  if stored and stored >= tonumber(version) then return end
  local is_new = redis.call('EXISTS', META) == 0
  redis.call('HSET', META, META_POLICY_VERSION, version)
  local left_ms = redis.call('PTTL', META)
  if is_new or (left_ms >= 0 and left_ms < IDLE_MS) then redis.call('PEXPIRE', META, IDLE_MS) end
end
