-- Functions on a user's session records, and on the lists and sums that are derived from them.
-- A record is a table with the fields of store/sessions/fields.py: record[WRITE_SEQ], ...
--
-- Lists, each newest position first:
--   m, b<subBiz>, c<category>, x<subBiz> <category>  by priority, then write_ts: the lists that clients page through
--   B<subBiz>, C<category>                           by write_ts: to find the newest session
--   o                                                unordered: sessions with messages that are not delivered

local function is_gateway(conversation)
  return string.sub(conversation, 1, 2) == 'b_'
end

local function is_private(conversation)
  return string.sub(conversation, 1, 2) == 'p_'
end

-- The same rule as Session.valid in session.py: a private conversation exists from its first message on, and a deleted
-- session is valid again after the next countable message.
local function is_valid(conversation, record)
  if is_gateway(conversation) then return (record[VALID_INSIDE] or 0) > 0 end
  if record[DISSOLVED] or (record[WRITE_SEQ] == 0 and is_private(conversation)) then return false end
  return record[DELETED_N] == nil or record[N] > record[DELETED_N]
end

local function unread_count(conversation, record)
  if is_gateway(conversation) then return record[UNREAD_INSIDE] or 0 end
  if not is_valid(conversation, record) then return 0 end
  return count_unread(record[N], record[READ_N], record[DELETED_N])
end

local function unread_mention_count(record)
  local count, read_seq = 0, math.max(record[ACKNOWLEDGED_SEQ], record[DELETED_SEQ] or 0)
  for _, seq in ipairs(record[MENTIONS] or {}) do
    if seq > read_seq then count = count + 1 end
  end
  return count
end

-- Returns the record of a session, or nil.
local function get(conversation)
  local text = redis.call('HGET', SESSIONS, conversation)
  if not text then return nil end
  return cjson.decode(text)
end

-- Returns a record as text: the fixed fields first, in their order (the fast path relies on it), then the peer's
-- positions. Empty lists are left out: Lua's JSON can't tell them from empty objects.
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

-- Returns what a session contributes to lists and sums: entries (a set), sums (by field of meta), mute_end (ms, as
-- text). It is computed before and after a change; `put` writes the difference.
local function contribution(conversation, record)
  local result = { entries = {}, sums = {} }
  if record == nil then return result end
  local muted = record[MUTED] == 1
  if muted then result.mute_end = record[MUTED_UNTIL_MS] end
  if not is_valid(conversation, record) then return result end
  local entries, sums, sub_biz, category = result.entries, result.sums, record[SUB_BIZ], record[CATEGORY]
  local position = list_position(record[PRIORITY], record[WRITE_TS])
  local counted = muted and 0 or unread_count(conversation, record)
  entries[list_entry(sub_biz and 'b' .. sub_biz or 'm', position, conversation)] = true
  -- A session inside a subBiz counts in the total through its gateway.
  if not sub_biz then sums.total = counted end
  if is_gateway(conversation) then return result end
  if math.max(record[RECEIVED_SEQ], record[DELETED_SEQ] or 0) < record[WRITE_SEQ] then
    entries[list_entry('o', 0, conversation)] = true
  end
  local summed_lists = {}
  if sub_biz then
    entries[list_entry('B' .. sub_biz, record[WRITE_TS], conversation)] = true
    summed_lists[1] = 'b' .. sub_biz
  end
  if category then
    entries[list_entry('c' .. category, position, conversation)] = true
    entries[list_entry('C' .. category, record[WRITE_TS], conversation)] = true
    summed_lists[#summed_lists + 1] = 'c' .. category
    if sub_biz then entries[list_entry('x' .. sub_biz .. ' ' .. category, position, conversation)] = true end
  end
  for _, list in ipairs(summed_lists) do
    sums['n' .. list], sums['u' .. list] = 1, counted
    sums['q' .. list] = muted and 0 or unread_mention_count(record)
  end
  return result
end

-- Changes the lists from one set of entries to another.
local function move_entries(old, new)
  local added = 0
  for entry in pairs(new) do
    if not old[entry] then added = added + redis.call('ZADD', LIST, 0, entry) end
  end
  for entry in pairs(old) do
    if not new[entry] then added = added - redis.call('ZREM', LIST, entry) end
  end
  if added ~= 0 and redis.call('HINCRBY', META, 'listed', added) == added then key_created = true end
end

-- Changes the sums in meta from old to new values. Sums of lists that become empty are removed.
local function move_sums(old, new)
  local changes = {}
  for field, value in pairs(new) do changes[field] = value end
  for field, value in pairs(old) do changes[field] = (changes[field] or 0) - value end
  for field, change in pairs(changes) do
    if change ~= 0 and redis.call('HINCRBY', META, field, int(change)) == 0 and field ~= 'total' then
      redis.call('HDEL', META, field)
    end
  end
end

local function move_mute_end(conversation, new)
  if new then
    if redis.call('ZADD', MUTES, int(new), conversation) == 1 then
      redis.call('HINCRBY', META, 'timed', 1)
      key_created = true
    end
  else
    redis.call('HINCRBY', META, 'timed', -redis.call('ZREM', MUTES, conversation))
  end
  redis.call('HSET', META, 'due', redis.call('ZRANGE', MUTES, 0, 0, 'WITHSCORES')[2] or '')
end

-- Stores a record, and changes lists and sums from its contribution before the change (old) to the new one.
-- Returns the record as text.
local function put(conversation, record, old, is_new)
  local text = encode(record)
  redis.call('HSET', SESSIONS, conversation, text)
  redis.call('ZADD', INDEX, int(record[ACTIVE_TS]), conversation)
  if is_new then
    redis.call('HINCRBY', META, 'count', 1)
    key_created = true
  end
  local new = contribution(conversation, record)
  move_entries(old.entries, new.entries)
  move_sums(old.sums, new.sums)
  if old.mute_end ~= new.mute_end then move_mute_end(conversation, new.mute_end) end
  return text
end

-- Returns the first session of a list and its position, or nil if the list is empty.
local function first_of(list)
  local entry = redis.call('ZREVRANGEBYLEX', LIST, '(' .. list .. '\n~', '[' .. list .. '\n', 'LIMIT', 0, 1)[1]
  if not entry then return nil end
  local position, conversation = string.match(entry, '^[^\n]*\n(%d+)\n(.*)$')
  return conversation, tonumber(position)
end

-- Updates the gateway of a subBiz after a session inside has moved. The gateway gets the tick.
-- Returns the gateway and its record as text.
local function put_gateway(sub_biz, tick)
  local gateway, list = 'b_' .. sub_biz, 'b' .. sub_biz
  local record = get(gateway)
  local old, is_new = contribution(gateway, record), record == nil
  if is_new then
    record = new_record()
    record[OWN_WRITE_TS] = 0
  end
  local sums = redis.call('HMGET', META, 'n' .. list, 'u' .. list, 'q' .. list)
  local newest, written_ms = first_of('B' .. sub_biz)
  record[VALID_INSIDE] = tonumber(sums[1]) or 0
  record[UNREAD_INSIDE] = tonumber(sums[2]) or 0
  record[MENTIONS_INSIDE] = tonumber(sums[3]) or 0
  record[NEWEST_INSIDE], record[WRITE_TS] = newest, math.max(record[OWN_WRITE_TS], written_ms or 0)
  record[ACTIVE_TS] = math.max(record[ACTIVE_TS], tick)
  return gateway, put(gateway, record, old, is_new)
end

-- Stores changed records as one event of the user's chain. Each gets the next tick, which is at least `at` (ms). Then
-- the gateways of records in a subBiz get theirs.
-- moves: in order, each with conversation, record, old (contribution before the change), is_new, keeps_tick (its
-- active_ts stays).
-- Returns the event's tick, the tick before it, and a list of conversations and records as text in turn.
local function store_event(moves, at, entry)
  local previous = tonumber(redis.call('HGET', META, 'clock'))
  local tick, changed, sub_bizs = previous, {}, {}
  for _, move in ipairs(moves) do
    tick = math.max(tick + 1, at)
    if not move.keeps_tick then move.record[ACTIVE_TS] = tick end
    changed[#changed + 1] = move.conversation
    changed[#changed + 1] = put(move.conversation, move.record, move.old, move.is_new)
    local sub_biz = move.record[SUB_BIZ]
    if sub_biz and not move.keeps_tick and not sub_bizs[sub_biz] then
      sub_bizs[sub_biz] = true
      sub_bizs[#sub_bizs + 1] = sub_biz
    end
  end
  for _, sub_biz in ipairs(sub_bizs) do
    tick = tick + 1
    changed[#changed + 1], changed[#changed + 2] = put_gateway(sub_biz, tick)
  end
  redis.call('HSET', META, 'clock', int(tick))
  append_log(tick, previous, entry)
  return tick, previous, changed
end

-- Ends up to 500 mutes that are due, and wakes the hubs. Mutes that end at the same time are one event.
-- A load gives these sessions the same ticks.
local function end_mutes()
  local due, i = redis.call('ZRANGEBYSCORE', MUTES, '-inf', int(NOW), 'WITHSCORES', 'LIMIT', 0, 500), 1
  while due[i] do
    local end_ms, moves, conversations = due[i + 1], {}, {}
    while due[i + 1] == end_ms do
      local conversation = due[i]
      local record = get(conversation)
      local old = contribution(conversation, record)
      record[MUTED], record[MUTED_UNTIL_MS] = nil, nil
      moves[#moves + 1] = { conversation = conversation, record = record, old = old }
      conversations[#conversations + 1] = conversation
      i = i + 2
    end
    store_event(moves, tonumber(end_ms), string.format(MUTE_ENDED_ENTRY, cjson.encode(conversations)))
  end
  wake_hubs()
end

-- Ends all mutes that are due. Returns the epoch of the cached state, or nil if the state is not cached.
local function current_epoch()
  local epoch, due = check_state()
  if not epoch then return nil end
  while due and due <= NOW do
    end_mutes()
    due = tonumber(redis.call('HGET', META, 'due'))
  end
  return epoch
end
