-- Notes in which workspace a device of a user is in voice, unless another one is noted that is not the expected one.
-- KEYS: the user's devices in voice: hash, device -> workspace.
-- ARGV: device, workspace, expected workspace ('' for none), time for which it is kept (ms).
-- Returns the workspace that was noted before; nil if there was none.
local devices, device, workspace, expected, kept_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local before = redis.call('HGET', devices, device)
if before and before ~= workspace and before ~= expected then return before end
redis.call('HSET', devices, device, workspace)
redis.call('PEXPIRE', devices, kept_ms)
return before
