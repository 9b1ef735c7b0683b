-- Functions on one conversation's keys, which carry its partition's hash tag.
-- KEYS, always in this order:
--   HEAD     hash: the state that all readers share
--   MEMBERS  hash: user -> member record (JSON), current and former; of a thread everybody it knows
--   OUTBOX   stream of the whole partition: messages whose delivery is not complete, and revisions
--   LOADING  string: token of the server that loads from MongoDB, followed by '+' if the head existed at that time
-- The tables in store/conversations/conversation_fields.py, store/conversations/group_change.py and
-- store/messages/outbox/outbox_entries.py document the fields. Names such as HEAD_SEQ stand for the stored names: they
-- are replaced when scripts are read (store/conversations/lua_fields.py).
--
-- Every key may be evicted at any time. A message that has a place and is not durable is in the outbox only.
local HEAD, MEMBERS, OUTBOX, LOADING = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local IDLE_MS = 24 * 3600 * 1000
local DEPARTURE_MS = 2000 -- time for which messages wait for a departure

-- Keeps the conversation cached for another day.
local function touch()
  redis.call('PEXPIRE', HEAD, IDLE_MS)
  redis.call('PEXPIRE', MEMBERS, IDLE_MS)
end

-- Makes the functions below work on another conversation of the partition.
local function select_conversation(head_key, members_key)
  HEAD, MEMBERS = head_key, members_key
end

local function kind()
  return redis.call('HGET', HEAD, HEAD_KIND)
end

local function is_group()
  return kind() == 'G'
end

-- Returns whether the conversation has a membership: it is a group, or a thread with its followers.
local function has_members()
  local found = kind()
  return found == 'G' or found == 'T'
end

-- Returns whether the whole membership of a group or thread is cached. Drops a membership of which a part was evicted.
local function members_loaded()
  local total = redis.call('HGET', HEAD, HEAD_MEMBERS_TOTAL)
  if not total then return false end
  if redis.call('HLEN', MEMBERS) ~= tonumber(total) then
    redis.call('DEL', MEMBERS)
    redis.call('HDEL', HEAD, HEAD_MEMBERS_TOTAL)
    return false
  end
  return true
end

-- Returns whether the pending group change, if there is one, is in the outbox. If it is not, it may never become
-- durable: head and membership, which include it, are dropped.
local function pending_change_in_outbox()
  local entry_id = redis.call('HGET', HEAD, HEAD_PENDING_CHANGE)
  if not entry_id or #redis.call('XRANGE', OUTBOX, entry_id, entry_id) > 0 then return true end
  redis.call('DEL', HEAD, MEMBERS)
  return false
end

-- Returns whether the head is cached. Servers that know no channels or no blocks leave fields out that decide rights.
local function head_exists()
  local head = redis.call('HMGET', HEAD, HEAD_SEQ, HEAD_KIND, HEAD_POLICY_VERSION, HEAD_BLOCKED)
  return head[1] and (head[2] ~= 'C' or head[3]) and (head[2] ~= 'P' or head[4]) and true or false
end

-- Makes all servers forget the messages that they keep of the conversation (store/messages/newest_messages.py).
-- Servers of the version before load heads without a contents version.
local function change_contents_version()
  if redis.call('HEXISTS', HEAD, HEAD_CONTENTS_VERSION) == 1 then
    redis.call('HINCRBY', HEAD, HEAD_CONTENTS_VERSION, 1)
  end
end

-- Returns a message (JSON) with the mark that there is a thread under it.
local function with_thread(message)
  return string.format('%s,"%s":true}', string.sub(message, 1, -2), MESSAGE_HAS_THREAD)
end

-- Returns whether everything that a writer needs is cached.
local function is_loaded()
  if not head_exists() or not pending_change_in_outbox() then return false end
  return not has_members() or members_loaded()
end

-- Returns a user's member record, or nil.
local function find_member(user)
  local text = redis.call('HGET', MEMBERS, user)
  if not text then return nil end
  return cjson.decode(text)
end

-- Returns the newest interval of a membership, or nil: a thread also knows users who never followed it.
local function newest_interval(member)
  local intervals = member[MEMBER_INTERVALS]
  return intervals and intervals[#intervals]
end

local function is_current(member)
  local interval = member and newest_interval(member)
  return interval ~= nil and interval[2] == MEMBER_NO_END
end

-- Returns the fields of a stream row as a table.
local function entry_of(row)
  local flat, entry = row[2], {}
  for i = 1, #flat, 2 do entry[flat[i]] = flat[i + 1] end
  return entry
end

-- Returns the outbox entry of the pending group change, or nil if there is none.
local function find_pending_change()
  local entry_id = redis.call('HGET', HEAD, HEAD_PENDING_CHANGE)
  local row = entry_id and redis.call('XRANGE', OUTBOX, entry_id, entry_id)[1]
  return row and entry_of(row) or nil
end

-- Returns whether a member joins with the pending change: they have no session in MongoDB yet.
local function is_joining(user, member, pending)
  if not pending or newest_interval(member)[1] ~= tonumber(pending[OUTBOX_SEQ]) then return false end
  for _, joined in ipairs(cjson.decode(pending[OUTBOX_GROUP_CHANGE])[CHANGE_JOINED] or {}) do
    if joined == user then return true end
  end
  return false
end

-- Calls visit for each of the conversation's outbox entries, oldest first, with seq, n, group change (JSON or nil), id.
local function each_reserved(conversation, visit)
  for _, row in ipairs(redis.call('XRANGE', OUTBOX, '-', '+')) do
    local entry = entry_of(row)
    if entry[OUTBOX_CONVERSATION] == conversation then
      visit(tonumber(entry[OUTBOX_SEQ]), tonumber(entry[OUTBOX_N]), entry[OUTBOX_GROUP_CHANGE], row[1])
    end
  end
end

-- Returns whether a member or former member of a group may read the message at a seq.
local function may_read(member, seq, has_full_history)
  if has_full_history then return true end
  for _, interval in ipairs(member[MEMBER_INTERVALS]) do
    if interval[1] <= seq and (interval[2] == MEMBER_NO_END or seq <= interval[2]) then return true end
  end
  return false
end

-- Puts the member records of a group change into the cache.
local function put_members(change)
  for _, pair in ipairs(change[CHANGE_MEMBERS] or {}) do
    if redis.call('HSET', MEMBERS, pair[1], pair[2]) == 1 then
      redis.call('HINCRBY', HEAD, HEAD_MEMBERS_TOTAL, 1)
    end
  end
end

-- Sets the fields of a group that a change sets. Fields of the end of a group are not among a group's fields.
local function set_group_fields(group, fields)
  for name, value in pairs(fields) do
    if name ~= HEAD_END and name ~= HEAD_ENDED_AT then group[name] = value ~= cjson.null and value or nil end
  end
end

-- Applies a group change to head and membership, unless it is applied already.
local function apply_change(change)
  local head = redis.call('HMGET', HEAD, HEAD_GROUP_VERSION, HEAD_GROUP)
  if (tonumber(head[1]) or 0) >= change[CHANGE_VERSION] then return end
  local group, fields = cjson.decode(head[2]), change[CHANGE_FIELDS] or {}
  set_group_fields(group, fields)
  for _, name in ipairs({ HEAD_END, HEAD_ENDED_AT }) do
    if fields[name] then redis.call('HSET', HEAD, name, fields[name]) end
  end
  redis.call(
    'HSET', HEAD,
    HEAD_GROUP_VERSION, change[CHANGE_VERSION],
    HEAD_MEMBER_COUNT, change[CHANGE_MEMBER_COUNT],
    HEAD_GROUP, cjson.encode(group)
  )
  -- Servers remember memberships by version. A Redis that lost its last changes must not use these versions again.
  redis.call('HINCRBY', HEAD, HEAD_MEMBERSHIP_VERSION, 1 + tonumber(redis.call('TIME')[2]))
  if members_loaded() then put_members(change) end
end

-- Returns a change that changes nothing yet, and the fields of the group or thread (a table) that it may change.
local function begin_change()
  local head = redis.call('HMGET', HEAD, HEAD_GROUP_VERSION, HEAD_MEMBER_COUNT, HEAD_GROUP)
  local change = { [CHANGE_VERSION] = (tonumber(head[1]) or 0) + 1, [CHANGE_MEMBER_COUNT] = tonumber(head[2]) }
  return change, cjson.decode(head[3])
end

-- Adds to one of the lists of a change.
local function add_to_change(change, list, item)
  change[list] = change[list] or {}
  table.insert(change[list], item)
end

-- Begins an interval of a user's membership, as a part of a change. The caller adds the record to the change.
local function join_member(change, user, member, first_seq, now_ms)
  member[MEMBER_JOINED_AT], member[MEMBER_UNFOLLOWED] = now_ms, nil
  member[MEMBER_INTERVALS] = member[MEMBER_INTERVALS] or {}
  table.insert(member[MEMBER_INTERVALS], { first_seq, MEMBER_NO_END })
  change[CHANGE_MEMBER_COUNT] = change[CHANGE_MEMBER_COUNT] + 1
  add_to_change(change, CHANGE_JOINED, user)
end

-- Puts a change, with its message if it has one, into the outbox and applies it to head and membership.
-- n: countable messages up to seq, as text. Returns the membership's version, the outbox entry, and the change (JSON).
local function place_change(change, seq, n, conversation, message)
  apply_change(change)
  local change_text = cjson.encode(change)
  local entry_id = redis.call(
    'XADD', OUTBOX, '*', OUTBOX_SEQ, seq, OUTBOX_N, n, OUTBOX_CONVERSATION, conversation,
    OUTBOX_MESSAGE, message, OUTBOX_GROUP_CHANGE, change_text
  )
  redis.call('HSET', HEAD, HEAD_PENDING_CHANGE, entry_id)
  return redis.call('HGET', HEAD, HEAD_MEMBERSHIP_VERSION), entry_id, change_text
end

-- Returns whether a member leaves with the pending change, which was placed less than DEPARTURE_MS ago.
local function has_departure_in_flight(pending)
  -- Decoding it would take long if thousands join. Inside the records of members, quotes are escaped.
  if not pending or not string.find(pending[OUTBOX_GROUP_CHANGE], '"' .. CHANGE_LEFT .. '":[', 1, true) then
    return false
  end
  local placed_ms = tonumber(string.match(redis.call('HGET', HEAD, HEAD_PENDING_CHANGE), '^%d+'))
  local now = redis.call('TIME')
  -- After a failover, the clock may be behind the one that placed it.
  return math.abs(tonumber(now[1]) * 1000 + tonumber(now[2]) / 1000 - placed_ms) < DEPARTURE_MS
end

-- Returns whether the other person of a private conversation has blocked a user.
local function is_blocked(user)
  return string.find(redis.call('HGET', HEAD, HEAD_BLOCKED), ' ' .. user .. ' ', 1, true) ~= nil
end

-- Returns why a user may not write a message in a group, as `reserve` answers it; nil: they may. With is_judged only
-- the end of the group is looked at. mentions: users, from an index on.
local function judge_in_group(sender, needs_member, needs_moderator, is_judged, mentions, first)
  local group_end, member = redis.call('HGET', HEAD, HEAD_END), find_member(sender)
  if group_end == GROUP_DISMISSED or (needs_member and member == nil) then return 'not_a_member' end
  if group_end then return 'former_member' end
  if is_judged then return nil end
  local is_member = is_current(member)
  if needs_member and not is_member then return 'former_member' end
  if needs_moderator and not (is_member and member[MEMBER_ROLE] ~= 'MEMBER') then return 'forbidden' end
  -- The message's session updates go to MongoDB with it: sender and mentioned users must have their sessions there.
  local pending = find_pending_change()
  if is_member and is_joining(sender, member, pending) then return 'busy' end
  -- If the message were durable first, the departure could not become durable.
  if has_departure_in_flight(pending) then return 'busy' end
  for i = first, #mentions do
    local mentioned = find_member(mentions[i])
    if not is_current(mentioned) then return 'mention_not_a_member' end
    if is_joining(mentions[i], mentioned, pending) then return 'busy' end
  end
  return nil
end
