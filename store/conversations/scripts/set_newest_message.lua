-- Makes a durable message visible to readers.
-- ARGV: seq (0: only a group change is durable), message (JSON), commit timestamp (ms; 0: it moves no session),
-- countable (0/1), outbox entry and change of a group or thread (JSON; both '': none), sender of a reply (else ''), n,
-- seq of the parent conversation (0: it is no reply).
-- The change is applied already, unless head or membership were loaded in between. A head that was loaded after the
-- outbox was lost may be behind this place.
-- Returns the seq of the newest message that readers see (0 if the head is not cached), and the head's write time in
-- ms.
local seq, message, at_ms, countable = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local entry_id, change, replier = ARGV[5], ARGV[6] ~= '' and ARGV[6], ARGV[7]
local n, parent_seq = tonumber(ARGV[8]), tonumber(ARGV[9])

-- Returns the latest repliers with one more reply, as the head has them.
local function participants_with(user, reply_seq)
  local known, kept = cjson.decode(redis.call('HGET', HEAD, HEAD_PARTICIPANTS) or '[]'), {}
  for _, pair in ipairs(known) do
    if pair[2] == user then reply_seq = math.max(reply_seq, pair[1]) end
  end
  local is_added = false
  for _, pair in ipairs(known) do
    if pair[1] < reply_seq and not is_added then kept[#kept + 1], is_added = { reply_seq, user }, true end
    if pair[2] ~= user then kept[#kept + 1] = pair end
  end
  if not is_added then kept[#kept + 1] = { reply_seq, user } end
  return cjson.encode({ unpack(kept, 1, MAX_PARTICIPANTS) })
end

local head = redis.call(
  'HMGET', HEAD, HEAD_SEQ, HEAD_NEWEST_SEQ, HEAD_MOVED_AT, HEAD_WRITTEN_AT, HEAD_PENDING_CHANGE)
local reserved_seq, newest_seq, pending = tonumber(head[1]), tonumber(head[2]), head[5]
local moved_at_ms, written_at_ms = tonumber(head[3]), tonumber(head[4])
if not reserved_seq or (change and not members_loaded()) then
  -- The server that loads them may have read MongoDB before this message was durable: it has to read again.
  redis.call('DEL', LOADING)
end
if not reserved_seq then return { 0, 0 } end
local fields = {}
local function set(field, value)
  fields[#fields + 1], fields[#fields + 2] = field, value
end
if seq > reserved_seq then
  local known = redis.call('HMGET', HEAD, HEAD_N, HEAD_PARENT_SEQ)
  set(HEAD_SEQ, ARGV[1])
  if n > tonumber(known[1]) then set(HEAD_N, ARGV[8]) end
  if parent_seq > (tonumber(known[2]) or 0) then set(HEAD_PARENT_SEQ, ARGV[9]) end
end
if at_ms > moved_at_ms then set(HEAD_MOVED_AT, ARGV[3]) end
if countable and at_ms > written_at_ms then
  written_at_ms = at_ms
  set(HEAD_WRITTEN_AT, ARGV[3])
end
if seq > newest_seq then
  set(HEAD_NEWEST_SEQ, ARGV[1])
  set(HEAD_NEWEST, message)
elseif seq > 0 and seq < newest_seq then
  -- A later message was durable first.
  change_contents_version()
end
if replier ~= '' then set(HEAD_PARTICIPANTS, participants_with(replier, seq)) end
if #fields > 0 then redis.call('HSET', HEAD, unpack(fields)) end
if change then
  apply_change(cjson.decode(change))
  if pending == entry_id then redis.call('HDEL', HEAD, HEAD_PENDING_CHANGE) end
end
touch()
return { math.max(seq, newest_seq), written_at_ms }
