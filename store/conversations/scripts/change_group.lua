-- Changes a group and gives the SYSTEM message that announces the change its place, in one step. Members who join
-- can read this message and later ones; members who leave can read the messages before it.
-- ARGV: version of the membership that the change was decided on, now (ms), message (JSON), announced (0/1),
-- group fields (JSON), then user and action (join, leave, or a role) in turn.
-- Returns {'ok', seq, n, membership version, outbox entry, change (JSON)}, or {refusal}: not_loaded, busy (another
-- change is pending), outdated (the membership has another version).
local expected_version, now_ms, message, announced = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1'
local fields = cjson.decode(ARGV[5])
local FIRST_ACTION = 6

if not is_loaded() then return { 'not_loaded' } end
local head = redis.call(
  'HMGET', HEAD, HEAD_MEMBERSHIP_VERSION, HEAD_GROUP_VERSION, HEAD_N, HEAD_MEMBER_COUNT, HEAD_GROUP,
  HEAD_PENDING_CHANGE, HEAD_SEQ, HEAD_WRITTEN_AT
)
local version, group_version, n, member_count = head[1], tonumber(head[2]) or 0, head[3], tonumber(head[4])
local group, pending, newest_seq, written_at_ms = cjson.decode(head[5]), head[6], tonumber(head[7]), tonumber(head[8])
if pending then return { 'busy' } end
if version ~= expected_version then return { 'outdated' } end

local seq = announced and redis.call('HINCRBY', HEAD, HEAD_SEQ, 1) or 0
local change = {
  [CHANGE_VERSION] = group_version + 1,
  [CHANGE_MEMBER_COUNT] = member_count,
  [CHANGE_SUB_BIZ] = group[HEAD_SUB_BIZ],
  [CHANGE_WRITTEN_AT] = written_at_ms,
}
if not announced then change[CHANGE_SILENT] = true end

local function add(list, item)
  change[list] = change[list] or {}
  table.insert(change[list], item)
end

for i = FIRST_ACTION, #ARGV, 2 do
  local user, action = ARGV[i], ARGV[i + 1]
  local member = find_member(user) or { [MEMBER_INTERVALS] = {} }
  if action == 'join' then
    member[MEMBER_ROLE], member[MEMBER_JOINED_AT] = 'MEMBER', now_ms
    table.insert(member[MEMBER_INTERVALS], { seq, MEMBER_NO_END })
    change[CHANGE_MEMBER_COUNT] = change[CHANGE_MEMBER_COUNT] + 1
    add(CHANGE_JOINED, user)
  elseif action == 'leave' then
    newest_interval(member)[2] = seq - 1
    change[CHANGE_MEMBER_COUNT] = change[CHANGE_MEMBER_COUNT] - 1
    add(CHANGE_LEFT, user)
  else
    member[MEMBER_ROLE] = action
  end
  add(CHANGE_MEMBERS, { user, cjson.encode(member) })
end
if next(fields) ~= nil then change[CHANGE_FIELDS] = fields end
if fields[HEAD_END] then
  fields[HEAD_ENDED_AT] = newest_seq
  change[CHANGE_MEMBER_COUNT] = 0
end
set_group_fields(group, fields)
change[CHANGE_GROUP] = group

apply_change(change)
local change_text = cjson.encode(change)
local entry_id = redis.call(
  'XADD', OUTBOX, '*', OUTBOX_SEQ, seq, OUTBOX_N, n,
  OUTBOX_CONVERSATION, cjson.decode(message)[MESSAGE_CONVERSATION],
  OUTBOX_MESSAGE, message, OUTBOX_GROUP_CHANGE, change_text
)
redis.call('HSET', HEAD, HEAD_PENDING_CHANGE, entry_id)
touch()
return { 'ok', seq, tonumber(n), redis.call('HGET', HEAD, HEAD_MEMBERSHIP_VERSION), entry_id, change_text }
