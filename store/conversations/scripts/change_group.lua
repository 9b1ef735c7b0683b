-- Changes a group or thread. In a group, the SYSTEM message that announces the change gets its place in the same step:
-- members who join can read this message and later ones; members who leave can read the messages before it. In a thread
-- users follow from the next reply on, and follow no longer after the newest one.
-- KEYS: see _conversation.lua; for a change of a thread by a user who needs rights in its parent conversation also
-- head, members, outbox and load of that.
-- ARGV: version of the membership that the change was decided on, now (ms), message (JSON), announced (0/1),
-- fields (JSON), thread, user who makes the change, policy version under which their rights in the parent channel
-- were judged, needs a moderator of the parent group (0/1) (these four: '' in a group, or if no rights are needed),
-- entry of the audit log (JSON; '' if there is none),
-- then user and action (join, leave, or a role) in turn.
-- Returns {'ok', seq, n, membership version, outbox entry, change (JSON)}, or {refusal}: not_loaded, busy (another
-- change is pending), outdated (the membership has another version), outdated_rights (the user may not make the change
-- any more, or has to be judged again).
local expected_version, now_ms, message, announced = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local fields, thread, maker = cjson.decode(ARGV[5]), ARGV[6], ARGV[7]
local judged_version, needs_moderator, audit = tonumber(ARGV[8]), ARGV[9] == '1', ARGV[10]
local FIRST_ACTION = 11

-- Returns why the change may not be made, by what is so in the parent conversation of the thread at this moment.
local function judge_in_parent()
  if not is_loaded() then return 'not_loaded' end
  local parent_kind = kind()
  if parent_kind == 'C' and judged_version < tonumber(redis.call('HGET', HEAD, HEAD_POLICY_VERSION)) then
    return 'outdated_rights'
  elseif parent_kind == 'G' then
    local refusal = judge_in_group(maker, true, needs_moderator, false, {}, 1)
    if refusal then return refusal == 'busy' and 'busy' or 'outdated_rights' end
    local has_full_history = cjson.decode(redis.call('HGET', HEAD, HEAD_GROUP))[HEAD_FULL_HISTORY]
    local parent_message_seq = tonumber(string.match(thread, '^t_(%d+)_'))
    if not may_read(find_member(maker), parent_message_seq, has_full_history) then return 'outdated_rights' end
  end
end

if KEYS[5] then
  local thread_head, thread_members = HEAD, MEMBERS
  select_conversation(KEYS[5], KEYS[6])
  local refusal = judge_in_parent()
  if refusal then return { refusal } end
  select_conversation(thread_head, thread_members)
end
if not is_loaded() then return { 'not_loaded' } end
local head = redis.call(
  'HMGET', HEAD, HEAD_MEMBERSHIP_VERSION, HEAD_N, HEAD_PENDING_CHANGE, HEAD_SEQ, HEAD_WRITTEN_AT)
local version, n, pending, newest_seq, written_at_ms = head[1], head[2], head[3], tonumber(head[4]), tonumber(head[5])
if pending then return { 'busy' } end
if version ~= expected_version then return { 'outdated' } end

local is_thread = kind() == 'T'
local seq = announced and redis.call('HINCRBY', HEAD, HEAD_SEQ, 1) or 0
local first_seq, last_seq = seq, seq - 1
if is_thread then first_seq, last_seq = newest_seq + 1, newest_seq end
local change, group = begin_change()
if is_thread then change[CHANGE_NEWEST_SEQ] = newest_seq end
change[CHANGE_SUB_BIZ] = group[HEAD_SUB_BIZ]
change[CHANGE_WRITTEN_AT] = written_at_ms
if not announced then change[CHANGE_SILENT] = true end
if audit ~= '' then change[CHANGE_AUDIT] = audit end

for i = FIRST_ACTION, #ARGV, 2 do
  local user, action = ARGV[i], ARGV[i + 1]
  local member = find_member(user) or {}
  if action == 'join' then
    if not is_thread then member[MEMBER_ROLE] = 'MEMBER' end
    join_member(change, user, member, first_seq, now_ms)
  elseif action == 'leave' then
    if is_current(member) then
      newest_interval(member)[2] = last_seq
      change[CHANGE_MEMBER_COUNT] = change[CHANGE_MEMBER_COUNT] - 1
      add_to_change(change, CHANGE_LEFT, user)
    end
    if is_thread then member[MEMBER_UNFOLLOWED] = true end
  else
    member[MEMBER_ROLE] = action
  end
  add_to_change(change, CHANGE_MEMBERS, { user, cjson.encode(member) })
end
if next(fields) ~= nil then change[CHANGE_FIELDS] = fields end
if fields[HEAD_END] then
  fields[HEAD_ENDED_AT] = newest_seq
  change[CHANGE_MEMBER_COUNT] = 0
end
set_group_fields(group, fields)
if not is_thread then change[CHANGE_GROUP] = group end

local conversation = cjson.decode(message)[MESSAGE_CONVERSATION]
local new_version, entry_id, change_text = place_change(change, seq, n, conversation, message)
touch()
return { 'ok', seq, tonumber(n), new_version, entry_id, change_text }
