-- Stores a head from MongoDB, with the members if they were read. Adds the places and group changes that are in the
-- outbox and not in MongoDB. A head that exists is kept: it may be ahead of MongoDB.
-- ARGV: token of the claim, with the members (0/1), conversation, group version in MongoDB, number of head fields,
-- name and value of each head field in turn, then user and member record (JSON) in turn.
-- Returns 1, or 0 if the claim was lost: then load again.
local token, with_members, conversation = ARGV[1], ARGV[2] == '1', ARGV[3]
local durable_version, field_count = tonumber(ARGV[4]), tonumber(ARGV[5])
local FIRST_FIELD = 6
local FIRST_MEMBER = FIRST_FIELD + 2 * field_count

local claim = redis.call('GET', LOADING)
local is_cached = head_exists()
if claim ~= token and claim ~= token .. '+' then return 0 end
redis.call('DEL', LOADING)
-- The head existed when loading began and was evicted since. Messages may have become durable after MongoDB was read.
if claim ~= token and not is_cached then return 0 end

if not is_cached then
  redis.call('DEL', HEAD)
  for i = FIRST_FIELD, FIRST_MEMBER - 1, 2 do redis.call('HSET', HEAD, ARGV[i], ARGV[i + 1]) end
  local head = redis.call('HMGET', HEAD, HEAD_SEQ, HEAD_N)
  local stored_seq, seq, n = tonumber(head[1]), tonumber(head[1]), tonumber(head[2])
  each_reserved(conversation, function(reserved_seq, reserved_n)
    -- A lower place is durable, or another message has it and this one will take another place.
    if reserved_seq > stored_seq then seq, n = math.max(seq, reserved_seq), math.max(n, reserved_n) end
  end)
  redis.call('HSET', HEAD, HEAD_SEQ, seq, HEAD_N, n)
end
if with_members then
  redis.call('DEL', MEMBERS)
  local total = 0
  for i = FIRST_MEMBER, #ARGV, 2 do total = total + redis.call('HSET', MEMBERS, ARGV[i], ARGV[i + 1]) end
  redis.call('HSET', HEAD, HEAD_MEMBERS_TOTAL, total)
  redis.call('HINCRBY', HEAD, HEAD_MEMBERSHIP_VERSION, 1)
end
if not is_cached or with_members then
  each_reserved(conversation, function(_, _, change_text, entry_id)
    local change = change_text and cjson.decode(change_text)
    if change and change[CHANGE_VERSION] > durable_version then
      apply_change(change)
      if members_loaded() then put_members(change) end
      redis.call('HSET', HEAD, HEAD_PENDING_CHANGE, entry_id)
    end
  end)
end
touch()
return 1
