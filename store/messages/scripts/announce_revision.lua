-- Puts a revision of a message in a channel into the outbox, if rights have not changed since they were judged.
-- KEYS: head of the channel, outbox.
-- ARGV: field of the head with the policy version, policy version under which rights were judged, then names and values
-- of the outbox entry's fields.
-- Returns the outbox entry, or nil: the rights have to be judged again.
local head, outbox, field, judged_version = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local FIRST_FIELD = 3

local version = tonumber(redis.call('HGET', head, field))
if not version or judged_version < version then return false end
return redis.call('XADD', outbox, '*', unpack(ARGV, FIRST_FIELD))
