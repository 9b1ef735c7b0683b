-- Gives a message its seq and puts it into the outbox, if its sender may write here.
-- ARGV: sender, countable (0/1), message (JSON), needs a moderator (0/1), anybody may (1: written by the server),
-- conversation, then users mentioned.
-- A fifth key remembers for a while that this very message got a place: it gets no other.
-- Answers {'ok', seq, n, version of the membership, outbox entry}, or {refusal}: cold, outsider, former, forbidden, mention,
-- busy (who sends it, or is mentioned, is just becoming a member), twice.
local PLACED_MS = 60000
if not loaded() then return { 'cold' } end
if is_group() then
  local ended, sender = redis.call('HGET', HEAD, 'st'), member(ARGV[1])
  if ended == 'X' or sender == nil then return { 'outsider' } end
  if ended then return { 'former' } end
  if ARGV[5] ~= '1' then
    if not is_current(sender) then return { 'former' } end
    if ARGV[4] == '1' and sender.r == 'MEMBER' then return { 'forbidden' } end
    -- What a message does to sessions goes to MongoDB with it: those it is about must have theirs.
    local change = change_under_way()
    if is_joining(ARGV[1], sender, change) then return { 'busy' } end
    for i = 7, #ARGV do
      local mentioned = member(ARGV[i])
      if not is_current(mentioned) then return { 'mention' } end
      if is_joining(ARGV[i], mentioned, change) then return { 'busy' } end
    end
  end
end
if KEYS[5] and ARGV[5] ~= '1' and not redis.call('SET', KEYS[5], '1', 'NX', 'PX', PLACED_MS) then return { 'twice' } end
local seq = redis.call('HINCRBY', HEAD, 's', 1)
local n = redis.call('HINCRBY', HEAD, 'n', ARGV[2])
local entry = redis.call('XADD', OUTBOX, '*', 's', seq, 'n', n, 'c', ARGV[6], 'm', ARGV[3])
touch()
return { 'ok', seq, n, redis.call('HGET', HEAD, 'mv') or '0', entry }
