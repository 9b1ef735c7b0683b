-- Replaces the record of a taken member, if it is still the one that was taken. Otherwise returns the present one.
-- KEYS: as for push_take.
-- ARGV: the member, the record that was taken, the new record ('': remove the member), the time at which it is due (ms;
-- '': it stays taken), the end of the lease (ms).
local due, taken, records = KEYS[1], KEYS[2], KEYS[3]
local member, before, after, due_ms, lease_until_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local present = redis.call('HGET', records, member) or ''
if present ~= before then return { 0, present } end
if after == '' then
  redis.call('HDEL', records, member)
  redis.call('ZREM', due, member)
  redis.call('ZREM', taken, member)
  return { 1 }
end
redis.call('HSET', records, member, after)
if due_ms == '' then
  redis.call('ZREM', due, member)
  redis.call('ZADD', taken, lease_until_ms, member)
else
  redis.call('ZREM', taken, member)
  redis.call('ZADD', due, due_ms, member)
end
return { 1 }
