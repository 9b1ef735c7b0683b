-- Functions on one session's record: a table with the fields of store/sessions/fields.py: record[WRITE_SEQ], ...
-- Capitalised names that no script defines are replaced by literals: fields and limits of
-- store/sessions/script_constants.py.

local function is_private(conversation)
  return string.sub(conversation, 1, 2) == 'p_'
end

-- Returns the countable messages after those that were read, or are gone (deleted, expired), for a valid session.
local function count_unread(n, read_n, gone_n)
  return math.max(0, n - math.max(read_n, gone_n or 0))
end

-- Returns a record as text: the fixed fields first, in their order (`append` relies on it), then the peer's positions.
-- Empty lists are left out: Lua's JSON can't tell them from empty objects.
local leading_fields
local function encode(record)
  if not leading_fields then
    leading_fields = { [PEER_READ_SEQ] = true, [PEER_DELIVERED_SEQ] = true }
    for field in string.gmatch(FIXED_FIELDS, '%S+') do leading_fields[field] = true end
  end
  local text, others = encode_fixed(record), {}
  if record[PEER_READ_SEQ] or record[PEER_DELIVERED_SEQ] then
    text = text .. string.format(PEER_FORM, record[PEER_READ_SEQ] or 0, record[PEER_DELIVERED_SEQ] or 0)
  end
  for field, value in pairs(record) do
    if not leading_fields[field] and not (type(value) == 'table' and #value == 0) then others[field] = value end
  end
  return text .. (next(others) and ',' .. string.sub(cjson.encode(others), 2) or '}')
end

-- Notes an unread mention. A message that is applied after the state was loaded may already be in the loaded state. A
-- later message may have been applied first.
local function add_mention(record, seq)
  local mentions = record[MENTIONS] or {}
  for _, known in ipairs(mentions) do
    if known == seq then return end
  end
  local last = #mentions
  mentions[last + 1] = seq
  if last > 0 and mentions[last] > seq then table.sort(mentions) end
  if #mentions > MAX_UNREAD_MENTIONS then table.remove(mentions, 1) end
  record[MENTIONS] = mentions
end

local function read_up_to(record, seq, n)
  record[ACKNOWLEDGED_SEQ] = math.max(record[ACKNOWLEDGED_SEQ], seq)
  record[READ_N] = math.max(record[READ_N], n)
  record[RECEIVED_SEQ] = math.max(record[RECEIVED_SEQ], seq)
  local unread = {}
  for _, mention in ipairs(record[MENTIONS] or {}) do
    if mention > record[ACKNOWLEDGED_SEQ] then unread[#unread + 1] = mention end
  end
  record[MENTIONS] = unread
end

-- Notes in a record that messages arrived.
-- seq, n: of the newest one. written_ms: time of the newest countable one, or 0. others_seq: seq of the newest
-- countable one of others, or 0. own_seq, own_n: seq and n of the user's own newest one; 0: none. mentions: seqs of
-- those that mention the user, separated by spaces.
local function receive(conversation, record, seq, n, written_ms, others_seq, own_seq, own_n, mentions)
  record[WRITE_SEQ] = math.max(record[WRITE_SEQ], seq)
  record[N] = math.max(record[N], n)
  record[WRITE_TS] = math.max(record[WRITE_TS], written_ms)
  if others_seq > 0 and is_private(conversation) then
    -- The writer has read their own message.
    record[PEER_READ_SEQ] = math.max(record[PEER_READ_SEQ] or 0, others_seq)
    record[PEER_DELIVERED_SEQ] = math.max(record[PEER_DELIVERED_SEQ] or 0, others_seq)
  end
  for mention in string.gmatch(mentions, '%d+') do
    if tonumber(mention) > record[ACKNOWLEDGED_SEQ] then add_mention(record, tonumber(mention)) end
  end
  if own_seq > 0 then read_up_to(record, own_seq, own_n) end
end

-- Notes in a record the messages that wait for it. text: of the field w:<conversation> (_append.lua).
-- Returns the session's tick, or nil if the text is damaged.
local function receive_waiting(conversation, record, text)
  local seq, n, written_ms, tick, _, others_seq, own_seq, own_n, mentions = string.match(text, WAITING_PATTERN)
  if not seq then return nil end
  receive(
    conversation, record, tonumber(seq), tonumber(n), tonumber(written_ms), tonumber(others_seq), tonumber(own_seq),
    tonumber(own_n), mentions)
  return tonumber(tick)
end
