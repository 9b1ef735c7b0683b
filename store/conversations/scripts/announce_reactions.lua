-- Puts a change of a message's reactions into the outbox, if all users who ask for it still may.
-- KEYS: those of the conversation that decides on rights: of a thread its parent conversation, in the same partition.
-- ARGV: conversation of the message, its seq, policy version under which rights in a channel were judged ("": not in a
-- channel), number of users who have to be members of a group, each followed by '1' if they have to be owner or admin,
-- else by '0'; then names and values of the outbox entry's fields.
-- Returns {'ok', outbox entry}, or {refusal}: not_loaded, outdated (rights have to be judged again), in_delivery (the
-- message is not delivered to all users yet).
local conversation, seq, judged_version, users = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local FIRST_USER = 5
local FIRST_FIELD = FIRST_USER + 2 * users

if judged_version then
  local version = tonumber(redis.call('HGET', HEAD, HEAD_POLICY_VERSION))
  if not version then return { 'not_loaded' } end
  if judged_version < version then return { 'outdated' } end
elseif users > 0 then
  if not is_loaded() then return { 'not_loaded' } end
  if redis.call('HGET', HEAD, HEAD_END) then return { 'outdated' } end
  for i = FIRST_USER, FIRST_FIELD - 2, 2 do
    local member = find_member(ARGV[i])
    if not is_current(member) then return { 'outdated' } end
    if ARGV[i + 1] == '1' and member[MEMBER_ROLE] == 'MEMBER' then return { 'outdated' } end
  end
end
local in_delivery = false
each_reserved(conversation, function(reserved_seq)
  if reserved_seq == seq then in_delivery = true end
end)
if in_delivery then return { 'in_delivery' } end
return { 'ok', redis.call('XADD', OUTBOX, '*', unpack(ARGV, FIRST_FIELD)) }
