-- Claims workspaces whose voice states are due for a check, so that one server checks each of them.
-- KEYS: sorted set of workspaces by the time of the next check (ms).
-- ARGV: now (ms), time of the next check (ms), most workspaces.
-- Returns { workspace, ... }.
local now, next_check, most = ARGV[1], ARGV[2], ARGV[3]

local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, most)
for _, workspace in ipairs(due) do redis.call('ZADD', KEYS[1], next_check, workspace) end
return due
