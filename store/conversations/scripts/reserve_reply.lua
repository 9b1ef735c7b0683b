-- Gives a reply its place in a thread and puts it into the outbox, if its sender may write there. The thread belongs to
-- a parent conversation of the same partition, whose head and membership decide. If the thread does not know the sender
-- or a mentioned user yet, they follow it from this reply on: reply and change of the followers are placed together.
-- So is the copy of a broadcast reply: a message of its own in the parent conversation.
-- KEYS: those of the thread, then head, members, outbox and load of the parent conversation (_conversation.lua); for a
-- message that may get only one place, also the mark that it has a place; for a copy in a channel with slow mode
-- also the time of the sender's last message there (ms), as the last key.
-- ARGV: sender, countable (0/1), message (JSON), needs a moderator (0/1), rights were checked before (0/1), thread,
-- policy version under which rights in the parent channel were judged ("": they need none, or it is no channel), may
-- write in a locked thread (0/1), may begin the thread (0/1), now (ms), copy (JSON; '': none), slow mode for the copy
-- (ms; 0: none), the sender follows the thread from now on (0/1), then the users that it mentions by name.
-- Returns {'ok', seq, n, membership version of the thread, outbox entry, membership version of the parent, seq of the
-- parent, change (JSON) or '', members of the parent group read its whole history (0/1), and seq, n and outbox entry of
-- the copy, if there is one}, or {refusal}: as `reserve`, and locked, may_not_create, no_thread (a SYSTEM message can't
-- begin one), hidden (the parent message is expired, or a sender in a group can't read it; mention_not_a_member: a
-- mentioned member can't).
local sender, countable, message, needs_moderator = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local is_judged, thread, judged_version = ARGV[5] == '1', ARGV[6], tonumber(ARGV[7])
local may_write_locked, may_begin, now_ms = ARGV[8] == '1', ARGV[9] == '1', tonumber(ARGV[10])
local copy, slow_ms = ARGV[11] ~= '' and ARGV[11], tonumber(ARGV[12])
local sender_follows = ARGV[13] == '1'
local FIRST_MENTION = 14
local PARENT_HEAD, PARENT_MEMBERS, PLACED_MS = KEYS[5], KEYS[6], 60000
local LAST_SENT = slow_ms > 0 and KEYS[#KEYS]
local PLACED = KEYS[9] ~= LAST_SENT and KEYS[9]
local is_countable = countable == '1'

local has_full_history = false

local thread_head, thread_members = HEAD, MEMBERS
select_conversation(PARENT_HEAD, PARENT_MEMBERS)
if not is_loaded() then return { 'not_loaded' } end
local parent = redis.call(
  'HMGET', HEAD, HEAD_SEQ, HEAD_MEMBERSHIP_VERSION, HEAD_POLICY_VERSION, HEAD_KIND, HEAD_FLOOR_SEQ)
local parent_seq, parent_version, policy_version, parent_kind = parent[1], parent[2], parent[3], parent[4]
local parent_message_seq = tonumber(string.match(thread, '^t_(%d+)_'))
-- The parent message is expired, and its thread with it.
if not is_judged and parent_message_seq <= (tonumber(parent[5]) or 0) then return { 'hidden' } end
if parent_kind == 'G' then
  has_full_history = cjson.decode(redis.call('HGET', HEAD, HEAD_GROUP))[HEAD_FULL_HISTORY] and true or false
  local refusal = judge_in_group(sender, is_countable, needs_moderator, is_judged, ARGV, FIRST_MENTION)
  if refusal then return { refusal } end
  local member = find_member(sender)
  if is_countable and not is_judged then
    if not may_read(member, parent_message_seq, has_full_history) then return { 'hidden' } end
    for i = FIRST_MENTION, #ARGV do
      if not may_read(find_member(ARGV[i]), parent_message_seq, has_full_history) then
        return { 'mention_not_a_member' }
      end
    end
  end
  may_write_locked = may_write_locked or (is_current(member) and member[MEMBER_ROLE] ~= 'MEMBER')
elseif parent_kind == 'P' then
  if PLACED and redis.call('EXISTS', PLACED) == 1 then return { 'already_reserved' } end
  if is_blocked(sender) then return { 'blocked' } end
elseif parent_kind == 'C' and judged_version and judged_version < tonumber(policy_version) then
  return { 'outdated_rights', tonumber(policy_version) }
end

select_conversation(thread_head, thread_members)
if not is_loaded() then return { 'not_loaded' } end
local head = redis.call('HMGET', HEAD, HEAD_SEQ, HEAD_PARENT_SEQ, HEAD_N)
local newest_seq, has_replies = tonumber(head[1]), tonumber(head[3]) > 0
parent_seq = math.max(tonumber(parent_seq), tonumber(head[2]) or 0)
local change, settings = begin_change()
if not is_judged and not is_countable and not has_replies then return { 'no_thread' } end
if not is_judged and is_countable then
  if settings[HEAD_LOCKED] and not may_write_locked then return { 'locked' } end
  if not has_replies and not may_begin then return { 'may_not_create' } end
end

-- Makes a user follow from a seq on, as a part of the change. The caller adds the record to the change.
local function follow(user, member, seq)
  if not is_current(member) and not member[MEMBER_UNFOLLOWED] and change[CHANGE_MEMBER_COUNT] < MAX_FOLLOWERS then
    join_member(change, user, member, seq, now_ms)
  end
end

local seq, pending = newest_seq + 1, find_pending_change()
local changing = {}
if pending then
  local members = cjson.decode(pending[OUTBOX_GROUP_CHANGE])[CHANGE_MEMBERS] or {}
  for _, pair in ipairs(members) do changing[pair[1]] = true end
end
if is_countable then
  -- The users' rows in MongoDB have to exist before messages change them.
  if changing[sender] then return { 'busy' } end
  local own = find_member(sender) or {}
  if not own[MEMBER_LAST_REPLY] then
    own[MEMBER_LAST_REPLY] = seq
    if sender_follows then follow(sender, own, seq) end
    add_to_change(change, CHANGE_MEMBERS, { sender, cjson.encode(own) })
    settings[HEAD_REPLIERS] = (settings[HEAD_REPLIERS] or 0) + 1
    change[CHANGE_FIELDS] = { [HEAD_REPLIERS] = settings[HEAD_REPLIERS] }
  end
  for i = FIRST_MENTION, #ARGV do
    local user = ARGV[i]
    if changing[user] then return { 'busy' } end
    if user ~= sender and not find_member(user) then
      local mentioned = {}
      follow(user, mentioned, seq)
      if is_current(mentioned) then add_to_change(change, CHANGE_MEMBERS, { user, cjson.encode(mentioned) }) end
    end
  end
end
local has_change = change[CHANGE_MEMBERS] ~= nil
if has_change and pending then return { 'busy' } end
if PLACED and redis.call('EXISTS', PLACED) == 1 then return { 'already_reserved' } end
if LAST_SENT then
  local wait_ms = (tonumber(redis.call('GET', LAST_SENT)) or -slow_ms) + slow_ms - now_ms
  if wait_ms > 0 then return { 'slow_mode', math.min(wait_ms, slow_ms) } end
  redis.call('SET', LAST_SENT, ARGV[10], 'PX', slow_ms)
end
if PLACED then redis.call('SET', PLACED, '1', 'PX', PLACED_MS) end

-- The copy comes first: who may read it by its seq may read the reply by the seq of the parent.
local copy_seq, copy_n, copy_entry
if copy then
  select_conversation(PARENT_HEAD, PARENT_MEMBERS)
  copy_seq = redis.call('HINCRBY', HEAD, HEAD_SEQ, 1)
  copy_n = redis.call('HINCRBY', HEAD, HEAD_N, countable)
  local conversation = string.match(thread, '^t_%d+_(.+)$')
  copy_entry = redis.call(
    'XADD', OUTBOX, '*', OUTBOX_SEQ, copy_seq, OUTBOX_N, copy_n, OUTBOX_CONVERSATION, conversation,
    OUTBOX_MESSAGE, copy)
  touch()
  select_conversation(thread_head, thread_members)
  parent_seq = math.max(parent_seq, copy_seq)
end
redis.call('HSET', HEAD, HEAD_SEQ, seq, HEAD_PARENT_SEQ, parent_seq)
local n = redis.call('HINCRBY', HEAD, HEAD_N, countable)
message = string.format('%s,"%s":%d}', string.sub(message, 1, -2), MESSAGE_PARENT_SEQ, parent_seq)
local version, entry_id, change_text
if has_change then
  change[CHANGE_NEWEST_SEQ] = newest_seq
  version, entry_id, change_text = place_change(change, seq, n, thread, message)
else
  entry_id = redis.call(
    'XADD', OUTBOX, '*', OUTBOX_SEQ, seq, OUTBOX_N, n, OUTBOX_CONVERSATION, thread, OUTBOX_MESSAGE, message)
  version = redis.call('HGET', HEAD, HEAD_MEMBERSHIP_VERSION)
end
touch()
local answer = {
  'ok', seq, n, version, entry_id, parent_version, parent_seq, change_text or '', has_full_history and 1 or 0,
}
if copy then
  for _, part in ipairs({ copy_seq, copy_n, copy_entry }) do answer[#answer + 1] = part end
end
return answer
