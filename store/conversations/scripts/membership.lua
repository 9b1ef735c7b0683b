-- A group's head with somebody's membership, as of one moment: KEYS head, members; ARGV: user, then fields of the head.
-- Answers 1 or 0 (not whole in the cache: memberships are cached together, and their number beside the head), the membership, the
-- fields.
local row = redis.call('HMGET', KEYS[1], 'mt', unpack(ARGV, 2))
local whole = row[1] and row[2] and redis.call('HLEN', KEYS[2]) == tonumber(row[1])
row[1] = redis.call('HGET', KEYS[2], ARGV[1])
return { whole and 1 or 0, unpack(row, 1, #ARGV) }
