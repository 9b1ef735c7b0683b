-- Functions that store a user's sessions with their lists and sums (_lists.lua), and bring a cached state up to date.

-- Adds to numbers in meta, by field. Those that are known are set by one command, with further fields and values.
-- Sums of lists that become empty are removed, and the numbers of mentions and threads if there are none.
local function add_to_meta(changes, ...)
  local fields = { ... }
  for field, change in pairs(changes) do
    local known = state and state[field]
    if change == 0 then
      -- Nothing to write.
    elseif known then
      state[field] = known + change
      fields[#fields + 1], fields[#fields + 2] = field, int(known + change)
    else
      local value = redis.call('HINCRBY', META, field, int(change))
      local is_removed_at_zero = field == 'mentions' or field == 'threads' or string.find(field, '^[nuqt][bc]')
      if value == 0 and is_removed_at_zero then redis.call('HDEL', META, field) end
      if (field == 'listed' or field == 'channels_listed') and value == change then key_created = true end
    end
  end
  if #fields > 0 then redis.call('HSET', META, unpack(fields)) end
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

-- Calls a command with as many arguments as there are: Lua passes some thousand values at once. Returns the sum of the
-- replies.
local function call_with(command, key, arguments)
  local sum, step = 0, 1000
  for i = 1, #arguments, step do
    sum = sum + redis.call(command, key, unpack(arguments, i, math.min(i + step - 1, #arguments)))
  end
  return sum
end

-- Returns what changes in the keys with records and lists: of channels, or of all other sessions.
local function new_part(records, index, list, number, listed)
  return {
    records_key = records, index_key = index, list_key = list, number = number, listed = listed,
    records = {}, ticks = {}, entries = {},
  }
end

-- Writes a part. changes: of numbers in meta, by field; gets the numbers of members.
local function store_part(part, changes)
  local added, removed = {}, {}
  for entry, change in pairs(part.entries) do
    if change > 0 then
      added[#added + 1], added[#added + 2] = 0, entry
    elseif change < 0 then
      removed[#removed + 1] = entry
    end
  end
  call_with('HSET', part.records_key, part.records)
  call_with('ZADD', part.index_key, part.ticks)
  local listed = call_with('ZADD', part.list_key, added)
  if listed > 0 and state and state[part.listed] == 0 then key_created = true end
  changes[part.listed] = listed - call_with('ZREM', part.list_key, removed)
end

-- Stores records, with those that `fold` has changed, and changes lists and numbers from the contributions before the
-- change to the new ones.
-- moves: conversation -> { record, old (contribution before the change), is_new }. The rest: for add_to_meta.
-- Returns the records as text, by conversation.
local function store(moves, ...)
  local texts, changes, in_channels = {}, {}, nil
  local sessions = new_part(SESSIONS, INDEX, LIST, 'records', 'listed')
  if state and state.waiting_fields then
    for conversation, folded in pairs(state.folded) do moves[conversation] = moves[conversation] or folded end
    redis.call('HDEL', META, unpack(state.waiting_fields))
    changes.waiting, state.waiting_fields, state.folded = -state.waiting, nil, {}
  end
  for conversation, move in pairs(moves) do
    local part = sessions
    if is_channel(conversation) then
      in_channels = in_channels or new_part(
        TAG .. 'channels', TAG .. 'channel_index', TAG .. 'channel_list', 'channels', 'channels_listed')
      part = in_channels
    end
    local record, old, new = move.record, move.old, contribution(conversation, move.record)
    local text, records, ticks, entries = encode(record), part.records, part.ticks, part.entries
    texts[conversation] = text
    records[#records + 1], records[#records + 2] = conversation, text
    ticks[#ticks + 1], ticks[#ticks + 2] = int(record[ACTIVE_TS]), conversation
    if move.is_new then
      changes[part.number] = (changes[part.number] or 0) + 1
      key_created = true
    end
    for entry in pairs(new.entries) do entries[entry] = 1 end
    for entry in pairs(old.entries) do entries[entry] = (entries[entry] or 0) - 1 end
    for field, value in pairs(new.sums) do changes[field] = (changes[field] or 0) + value end
    for field, value in pairs(old.sums) do changes[field] = (changes[field] or 0) - value end
    if old.mute_end ~= new.mute_end then move_mute_end(conversation, new.mute_end) end
  end
  store_part(sessions, changes)
  if in_channels then store_part(in_channels, changes) end
  add_to_meta(changes, ...)
  return texts
end

-- Stores one record. Returns it as text.
local function put(conversation, record, old, is_new)
  return store({ [conversation] = { record = record, old = old, is_new = is_new } })[conversation]
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
  local sums = redis.call('HMGET', META, 'n' .. list, 'u' .. list, 'q' .. list, 't' .. list)
  local newest, written_ms = first_of('B' .. sub_biz)
  record[VALID_INSIDE] = tonumber(sums[1]) or 0
  record[UNREAD_INSIDE] = tonumber(sums[2]) or 0
  record[MENTIONS_INSIDE] = tonumber(sums[3]) or 0
  record[THREADS_INSIDE] = tonumber(sums[4]) or nil
  record[NEWEST_INSIDE], record[WRITE_TS] = newest, math.max(record[OWN_WRITE_TS], written_ms or 0)
  record[ACTIVE_TS] = math.max(record[ACTIVE_TS], tick)
  return gateway, put(gateway, record, old, is_new)
end

-- Stores the gateways of sessions that `fold` has changed. texts: gets the records of these gateways as text.
local function put_folded_gateways(texts)
  local ticks = state.gateway_ticks
  state.gateway_ticks = {}
  for sub_biz, tick in pairs(ticks) do
    local gateway, text = put_gateway(sub_biz, tick)
    texts[gateway] = text
  end
end

-- Stores what `fold` has changed, if no event has.
local function store_folded()
  if not state.waiting_fields then return end
  put_folded_gateways(store({}))
end

-- Stores changed records as one event of the user's chain. Each gets the next tick, which is at least `at` (ms). Then
-- the gateways of records in a subBiz get theirs. What `fold` has changed is stored too.
-- moves: in order, each with conversation, record, old (contribution before the change), is_new, keeps_tick (its
-- active_ts stays), sub_biz (the one that it was in until now).
-- Returns the event's tick, the tick before it, and a list of conversations and records as text in turn.
local function store_event(moves, at, entry)
  local previous, changed, sub_bizs = state.clock, {}, {}
  local tick, by_conversation = previous, {}
  for _, move in ipairs(moves) do
    tick = math.max(tick + 1, at)
    if not move.keeps_tick then move.record[ACTIVE_TS] = tick end
    by_conversation[move.conversation] = move
    local sub_biz = move.record[SUB_BIZ] or move.sub_biz
    if sub_biz and not move.keeps_tick and not sub_bizs[sub_biz] then
      sub_bizs[sub_biz] = true
      sub_bizs[#sub_bizs + 1] = sub_biz
    end
  end
  local last_tick = tick + #sub_bizs
  local texts = store(by_conversation, 'clock', int(last_tick))
  put_folded_gateways(texts)
  for _, move in ipairs(moves) do
    changed[#changed + 1], changed[#changed + 2] = move.conversation, texts[move.conversation]
  end
  for _, sub_biz in ipairs(sub_bizs) do
    tick = tick + 1
    changed[#changed + 1], changed[#changed + 2] = put_gateway(sub_biz, tick)
  end
  state.clock = last_tick
  append_log(int(last_tick), int(previous), entry)
  return last_tick, previous, changed
end

-- Appends events that change no session to the log, each with the next tick.
local function append_events(entries)
  local tick = state.clock
  for _, entry in ipairs(entries) do
    append_log(int(tick + 1), int(tick), entry)
    tick = tick + 1
  end
  state.clock = tick
  redis.call('HSET', META, 'clock', int(tick))
end

-- Applies the waiting messages (_append.lua) to their sessions. Their events are in the log already, with their ticks.
-- The records are stored by the next event of this script, or by store_folded.
-- Returns false if the state is damaged.
local function fold()
  local fields, names, conversations, texts = redis.call('HGETALL', META), {}, {}, {}
  for i = 1, #fields, 2 do
    local conversation = string.match(fields[i], '^w:(.*)$')
    if conversation then
      names[#names + 1], conversations[#names + 1], texts[#names + 1] = fields[i], conversation, fields[i + 1]
    end
  end
  if #names ~= state.waiting then return false end
  local records = redis.call('HMGET', SESSIONS, unpack(conversations))
  for i, conversation in ipairs(conversations) do
    if not records[i] then return false end
    local record = cjson.decode(records[i])
    local old = contribution(conversation, record)
    local tick = receive_waiting(conversation, record, texts[i])
    if not tick then return false end
    record[ACTIVE_TS] = tick
    state.folded[conversation] = { record = record, old = old }
    local sub_biz = record[SUB_BIZ]
    if sub_biz then
      state.gateway_ticks[sub_biz] = math.max(state.gateway_ticks[sub_biz] or 0, tick + 1)
    end
  end
  state.waiting_fields = names
  return true
end

-- Ends up to 500 mutes that are due, and wakes the hubs. Mutes that end at the same time are one event.
-- A load gives these sessions the same ticks.
-- Returns false if a key with sessions in channels was evicted.
local function end_mutes()
  local due, i = redis.call('ZRANGEBYSCORE', MUTES, '-inf', int(NOW), 'WITHSCORES', 'LIMIT', 0, 500), 1
  while due[i] do
    local end_ms, moves, conversations = due[i + 1], {}, {}
    while due[i + 1] == end_ms do
      local conversation = due[i]
      local record = get(conversation)
      if record == nil then return false end
      local old = contribution_before(conversation, record)
      record[MUTED], record[MUTED_UNTIL_MS] = nil, nil
      moves[#moves + 1] = { conversation = conversation, record = record, old = old }
      conversations[#conversations + 1] = conversation
      i = i + 2
    end
    store_event(moves, tonumber(end_ms), string.format(MUTE_ENDED_ENTRY, cjson.encode(conversations)))
  end
  wake_hubs()
  return true
end

-- Brings the cached state up to date: applies waiting messages and ends all mutes that are due. Every script on the
-- state calls it first.
-- purpose: nil; 'events': the script reads nothing of sessions, so messages may go on waiting; 'change': the script
-- calls store_event or store_folded, so nothing is written twice.
-- Returns the epoch of the cached state, or nil if the state is not cached.
local function current_epoch(purpose)
  local epoch = check_state()
  if not epoch then return nil end
  local due = state.due
  local is_due = due and due <= NOW
  if state.waiting > 0 and (purpose ~= 'events' or is_due) then
    if not fold() then
      drop_state()
      return nil
    end
    if purpose ~= 'change' and not is_due then store_folded() end
  end
  while due and due <= NOW do
    if not end_mutes() then
      drop_state()
      return nil
    end
    due = tonumber(redis.call('HGET', META, 'due'))
  end
  return epoch
end
