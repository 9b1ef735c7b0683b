-- Takes members of a queue that are due, for a lease, and returns each with its record.
-- KEYS: the due times of members, the ends of the leases of taken ones, the records.
-- ARGV: now (ms), end of the lease (ms), most members.
local due, taken, records = KEYS[1], KEYS[2], KEYS[3]
local now_ms, lease_until_ms, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

for _, member in ipairs(redis.call('ZRANGEBYSCORE', taken, '-inf', now_ms, 'LIMIT', 0, limit)) do
  redis.call('ZREM', taken, member)
  redis.call('ZADD', due, now_ms, member)
end

-- Each record belongs to a member that is due or taken. If Redis has evicted one of these keys, there are more records.
if redis.call('HLEN', records) > redis.call('ZCARD', due) + redis.call('ZCARD', taken) then
  for _, member in ipairs(redis.call('HKEYS', records)) do
    if not redis.call('ZSCORE', taken, member) then redis.call('ZADD', due, 'NX', now_ms, member) end
  end
end

local answer = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now_ms, 'LIMIT', 0, limit)) do
  redis.call('ZREM', due, member)
  redis.call('ZADD', taken, lease_until_ms, member)
  answer[#answer + 1] = member
  answer[#answer + 1] = redis.call('HGET', records, member) or ''
end
return answer
