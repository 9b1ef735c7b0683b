-- Reads a group's head with one membership, as of one moment.
-- KEYS: head, members. ARGV: user, field of the number of memberships (HEAD_MEMBERS_TOTAL), then fields of the head.
-- Returns {'found', member record (JSON), values of the fields}, {'not_loaded'} (head or memberships are not completely
-- cached), or {'not_a_member'}: nothing about a group is returned for a user who never was in it.
local head_key, members_key, user = KEYS[1], KEYS[2], ARGV[1]

local values = redis.call('HMGET', head_key, unpack(ARGV, 2))
local total, first_field = values[1], values[2]
local is_complete = total and first_field and redis.call('HLEN', members_key) == tonumber(total)
if not is_complete then return { 'not_loaded' } end
values[1] = redis.call('HGET', members_key, user)
if not values[1] then return { 'not_a_member' } end
return { 'found', unpack(values, 1, #ARGV - 1) }
