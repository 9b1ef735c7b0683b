-- Reads a group's head with one membership, as of one moment.
-- KEYS: head, members. ARGV: user, field of the number of memberships (HEAD_MEMBERS_TOTAL), then fields of the head.
-- Returns 1 or 0 (head or memberships are not completely cached), the member record (JSON), and the fields' values.
local head_key, members_key, user = KEYS[1], KEYS[2], ARGV[1]

local values = redis.call('HMGET', head_key, unpack(ARGV, 2))
local total, first_field = values[1], values[2]
local is_complete = total and first_field and redis.call('HLEN', members_key) == tonumber(total)
values[1] = redis.call('HGET', members_key, user)
return { is_complete and 1 or 0, unpack(values, 1, #ARGV - 1) }
