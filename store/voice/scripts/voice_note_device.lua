-- Notes in which workspace a device of a user is in voice.
-- KEYS: the user's devices in voice: hash, device -> workspace.
-- ARGV: device, workspace, time for which it is kept (ms).
-- Returns the workspace that was noted before; nil if there was none.
local devices, device, workspace, kept_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local before = redis.call('HGET', devices, device)
redis.call('HSET', devices, device, workspace)
redis.call('PEXPIRE', devices, kept_ms)
return before
