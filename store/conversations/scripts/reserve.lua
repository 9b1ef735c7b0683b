-- Gives a message its seq and puts it into the outbox, if its sender may write here. Messages that are not countable
-- are written by services, which need not be members.
-- KEYS: for a message that may get only one place, also the mark that it has a place;
-- in a channel with slow mode also the time of the sender's last message there (ms), as the last key.
-- ARGV: sender, countable (0/1), message (JSON), needs a moderator (0/1), rights were checked before (0/1),
-- conversation; then in a channel the policy version under which the sender's rights were judged ("": they need none),
-- slow mode (ms; 0: none) and now (ms), else the mentioned users.
-- Returns {'ok', seq, n, membership version, outbox entry}, or {refusal}: not_loaded, not_a_member, former_member,
-- blocked (in a private conversation), forbidden, mention_not_a_member, busy (with a pending change somebody leaves, or
-- the sender or a mentioned user joins), already_reserved, outdated_rights (with the smallest version to judge under),
-- slow_mode (with the time to wait, ms).
local sender, countable, message, needs_moderator = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local rights_checked, conversation = ARGV[5] == '1', ARGV[6]
local needs_member = countable == '1'
local FIRST_MENTION = 7
local is_channel = string.sub(conversation, 1, 2) == 'c_'
local slow_ms, now_ms = is_channel and tonumber(ARGV[8]) or 0, is_channel and tonumber(ARGV[9]) or 0
local LAST_SENT = slow_ms > 0 and KEYS[#KEYS]
local PLACED, PLACED_MS = KEYS[5] ~= LAST_SENT and KEYS[5], 60000

if not is_loaded() then return { 'not_loaded' } end
if is_channel then
  local judged_version, version = tonumber(ARGV[7]), redis.call('HGET', HEAD, HEAD_POLICY_VERSION)
  if judged_version and judged_version < tonumber(version) then return { 'outdated_rights', tonumber(version) } end
  if PLACED and redis.call('EXISTS', PLACED) == 1 then return { 'already_reserved' } end
  if LAST_SENT then
    local wait_ms = (tonumber(redis.call('GET', LAST_SENT)) or -slow_ms) + slow_ms - now_ms
    if wait_ms > 0 then return { 'slow_mode', math.min(wait_ms, slow_ms) } end
    redis.call('SET', LAST_SENT, ARGV[9], 'PX', slow_ms)
  end
elseif kind() == 'P' then
  if PLACED and redis.call('EXISTS', PLACED) == 1 then return { 'already_reserved' } end
  if is_blocked(sender) then return { 'blocked' } end
else
  local refusal = judge_in_group(sender, needs_member, needs_moderator, rights_checked, ARGV, FIRST_MENTION)
  if refusal then return { refusal } end
end
if PLACED and not redis.call('SET', PLACED, '1', 'NX', 'PX', PLACED_MS) then
  return { 'already_reserved' }
end
local seq = redis.call('HINCRBY', HEAD, HEAD_SEQ, 1)
local n = redis.call('HINCRBY', HEAD, HEAD_N, countable)
local entry_id = redis.call(
  'XADD', OUTBOX, '*', OUTBOX_SEQ, seq, OUTBOX_N, n, OUTBOX_CONVERSATION, conversation, OUTBOX_MESSAGE, message
)
touch()
return { 'ok', seq, n, redis.call('HGET', HEAD, HEAD_MEMBERSHIP_VERSION) or '0', entry_id }
