-- Changes of a user's cached sessions, by kind: messages, and the classes of store/sessions/changes.py. Each function
-- returns the decision for `apply`: { moves, at, entry, old, following }, the first three for store_event; or
-- { unchanged = conversations } if there is nothing to do, or it was done before; or UNKNOWN if MongoDB has newer data
-- than this state; or { logged = change }: an event without a session; or { noted = change }: a change of a session in
-- a channel, while these are not loaded, which is logged too.
-- old: for changes that senders are notified of, the read position (read_seq) and the number of unread messages before.
-- following: log entries of events that come right after this one and change no session. wakes: nobody else publishes
-- the event, so hubs have to read it.
local MAX_GAPS = 64

-- Notes the seqs before `seq` that were skipped: their messages have a place and are not durable yet.
local function add_gap(record, seq)
  local first = record[WRITE_SEQ] + 1
  if seq == first then return end
  local gaps = record[GAPS] or {}
  gaps[#gaps + 1], gaps[#gaps + 2] = first, seq - 1
  record[GAPS] = gaps
end

-- Returns true if the message at `seq` was not applied yet, and notes that it is applied now.
local function fill_gap(record, seq)
  local gaps, kept, found = record[GAPS] or {}, {}, false
  local function keep(first, last)
    if first <= last then kept[#kept + 1], kept[#kept + 2] = first, last end
  end
  for i = 1, #gaps, 2 do
    local first, last = gaps[i], gaps[i + 1]
    if first <= seq and seq <= last then
      found = true
      keep(first, seq - 1)
      keep(seq + 1, last)
    else
      keep(first, last)
    end
  end
  record[GAPS] = kept
  return found
end

-- A committed message, "<conversation> <seq> <n> <countable: 1 or 0> <at, ms> <log entry>".
-- is_own: the user wrote it and it is countable. mentions_user: it mentions the user and is countable.
local function message(text, is_own, mentions_user)
  local conversation, seq, n, countable, at, entry = string.match(text, MESSAGE_PATTERN)
  seq, n, countable, at = tonumber(seq), tonumber(n), tonumber(countable), tonumber(at)
  local record = get(conversation)
  local is_new, before = record == nil, contribution_before(conversation, record)
  if is_new then
    if not is_private(conversation) then return UNKNOWN end
    record = new_record()
    record[SUB_BIZ] = string.match(conversation, '~(.*)$')
  end
  if is_unfollowed(conversation, record) and not record[HIDDEN] then
    return late_reply(conversation, record, before, { seq = seq, n = n, at = at, entry = entry }, is_own, mentions_user)
  end
  if record[LAST_READABLE_SEQ] and seq > record[LAST_READABLE_SEQ] then return unchanged(conversation) end
  -- The messages of others that the user's own message marks as read. -1 if some were skipped: they may be the user's.
  local old = { read_seq = record[ACKNOWLEDGED_SEQ], unread = count_unread(n - countable, record[READ_N]) }
  if is_own and old.unread > 0 and seq ~= record[WRITE_SEQ] + 1 then old.unread = -1 end
  if seq > record[WRITE_SEQ] then
    add_gap(record, seq)
  elseif not fill_gap(record, seq) then
    return unchanged(conversation)
  end
  -- Too many gaps to keep. Load the state again, which subscribers notice, instead of losing a message silently.
  if record[GAPS] and #record[GAPS] > 2 * MAX_GAPS then return UNKNOWN end
  local written_ms, own_seq = countable == 1 and at or 0, is_own and seq or 0
  local others_seq = (countable == 1 and not is_own) and seq or 0
  receive(conversation, record, seq, n, written_ms, others_seq, own_seq, n, mentions_user and int(seq) or '')
  local move = { conversation = conversation, record = record, old = before, is_new = is_new }
  return { moves = { move }, at = at, entry = entry, old = old }
end

local messages = {
  message = function(text) return message(text, false, false) end,
  own = function(text) return message(text, true, false) end,
  mention = function(text) return message(text, false, true) end,
}

-- Read. r (seq), rn (n).
function changes.read(change)
  local conversation, seq, n = change.c, change.r, change.rn
  local record = get(conversation)
  if record == nil then return UNKNOWN end
  if seq <= record[ACKNOWLEDGED_SEQ] and not record[UNREAD_MARK] then return unchanged(conversation) end
  local move = { conversation = conversation, record = record, old = contribution_before(conversation, record) }
  local old = { read_seq = record[ACKNOWLEDGED_SEQ], unread = unread_count(conversation, record) }
  read_up_to(record, seq, n)
  record[UNREAD_MARK] = nil
  return changed_one(change, move, old)
end

-- SetFields. cs (conversations), f (fields to set), u (fields to remove), w (1: write_ts moves).
function changes.set(change)
  local conversations, set, removed, moves_write_ts = change.cs, change.f, change.u, change.w == 1
  local moves = {}
  for _, conversation in ipairs(conversations) do
    local record = get(conversation)
    if record == nil then return UNKNOWN end
    local old, differs = contribution_before(conversation, record), false
    for field, value in pairs(set) do
      if record[field] ~= value then record[field], differs = value, true end
    end
    for _, field in ipairs(removed) do
      if record[field] ~= nil then record[field], differs = nil, true end
    end
    if moves_write_ts and record[WRITE_TS] < change.at then record[WRITE_TS], differs = change.at, true end
    if moves_write_ts and record[OWN_WRITE_TS] then
      record[OWN_WRITE_TS] = math.max(record[OWN_WRITE_TS], change.at)
    end
    if differs then moves[#moves + 1] = { conversation = conversation, record = record, old = old } end
  end
  if #moves == 0 then return unchanged(unpack(conversations)) end
  return { moves = moves, at = change.at, entry = change.e }
end

-- Delivered. d (seq).
function changes.delivered(change)
  local conversation, seq = change.c, change.d
  local record = get(conversation)
  if record == nil then return UNKNOWN end
  if seq <= record[RECEIVED_SEQ] then return unchanged(conversation) end
  local move = { conversation = conversation, record = record, old = contribution_before(conversation, record) }
  record[RECEIVED_SEQ] = seq
  return changed_one(change, move)
end

-- AcknowledgeMany. ps (parts): Read and Delivered of different sessions, each with k (kind) and e (log entry of its
-- receipt; absent: none).
function changes.acknowledge(change)
  local moves, conversations, following = {}, {}, {}
  for i, part in ipairs(change.ps) do
    local decision = changes[part.k](part)
    if decision.unknown or decision.noted or decision.logged then return UNKNOWN end
    conversations[i] = part.c
    if decision.moves then
      moves[#moves + 1] = decision.moves[1]
      following[#following + 1] = part.e
    end
  end
  if #moves == 0 then return unchanged(unpack(conversations)) end
  return { moves = moves, at = change.at, entry = change.e, following = following }
end

local function notice(change)
  local conversation = change.c
  local record = get(conversation)
  if record == nil then return UNKNOWN end
  local move = { conversation = conversation, record = record, old = contribution_before(conversation, record) }
  move.keeps_tick = true
  return changed_one(change, move)
end

-- ReceiptReceived: peer (1), s (seq), k (R: read, D: delivered). Without peer: Notice.
function changes.receipt(change)
  if change.peer ~= 1 then return notice(change) end
  local conversation, seq, is_read = change.c, change.s, change.k == 'R'
  local record = get(conversation)
  if record == nil then return UNKNOWN end
  local move = { conversation = conversation, record = record, old = contribution_before(conversation, record) }
  local notified = is_read and NOTIFIED_READ_SEQ or NOTIFIED_DELIVERED_SEQ
  if seq <= math.max(record[NOTIFIED_READ_SEQ] or 0, record[notified] or 0) then return unchanged(conversation) end
  record[notified] = seq
  local moves_session = seq > (record[PEER_DELIVERED_SEQ] or 0)
  record[PEER_DELIVERED_SEQ] = math.max(record[PEER_DELIVERED_SEQ] or 0, seq)
  if is_read then
    moves_session = moves_session or seq > (record[PEER_READ_SEQ] or 0)
    record[PEER_READ_SEQ] = math.max(record[PEER_READ_SEQ] or 0, seq)
  end
  move.keeps_tick = not moves_session
  return changed_one(change, move)
end

-- EventOnly. again (1: it may have been applied before; absent: no).
function changes.event(change)
  if change.again == 1 and is_logged(change.e, '-') then return unchanged() end
  return { logged = change }
end

-- Revise. s (seq), again (1: it may have been applied before). The session moves if the message is the newest one.
function changes.revise(change)
  local conversation, seq, may_repeat = change.c, change.s, change.again == 1
  local record = get(conversation)
  if record == nil then return UNKNOWN end
  if record[LAST_READABLE_SEQ] or is_unfollowed(conversation, record) then return unchanged(conversation) end
  if seq > record[WRITE_SEQ] then return UNKNOWN end
  if may_repeat and is_logged(change.e, '-') then return unchanged(conversation) end
  local move = { conversation = conversation, record = record, old = contribution_before(conversation, record) }
  -- This event carries the message, so the message's own event is not needed after it.
  fill_gap(record, seq)
  move.keeps_tick = seq ~= record[WRITE_SEQ]
  return changed_one(change, move)
end

-- NewGroupVersion. v (version of the group). Only versions that were not applied yet move the session.
function changes.group(change)
  local conversation, version = change.c, change.v
  local record = get(conversation)
  if record == nil then return UNKNOWN end
  if record[LAST_READABLE_SEQ] or record[DISSOLVED] or version <= (record[GROUP_VERSION] or 0) then
    return unchanged(conversation)
  end
  local move = { conversation = conversation, record = record, old = contribution_before(conversation, record) }
  record[GROUP_VERSION] = version
  return changed_one(change, move)
end

-- ChannelChange. c (a channel, or a thread), b (the record to begin with), r (seq) and rn (n) of a new read position, d
-- (delivered seq), f (fields to set), u (fields to remove), w (1: write_ts moves), m (seq of a message that mentions
-- the user). All but c and b may be absent.
function changes.channel(change)
  local is_loaded = not is_channel(change.c) or find_channels()
  if is_loaded == nil then return UNKNOWN end
  if not is_loaded then
    -- A server that takes a message over repeats its mentions.
    if change.m and is_logged(change.e, int(change.at)) then return unchanged(change.c) end
    return { noted = change }
  end
  local conversation, previous = change.c, get(change.c)
  -- Access has come back.
  if change.m and previous and previous[HIDDEN] then return UNKNOWN end
  local old, record, differs = contribution_before(conversation, previous), previous or change.b, previous == nil
  if change.r and change.r > record[ACKNOWLEDGED_SEQ] then
    read_up_to(record, change.r, change.rn)
    differs = true
  end
  if change.d and change.d > record[RECEIVED_SEQ] then record[RECEIVED_SEQ], differs = change.d, true end
  for field, value in pairs(change.f or {}) do
    if record[field] ~= value then record[field], differs = value, true end
  end
  for _, field in ipairs(change.u or {}) do
    if record[field] ~= nil then record[field], differs = nil, true end
  end
  if change.w == 1 and record[WRITE_TS] < change.at then record[WRITE_TS], differs = change.at, true end
  if change.m and change.m > record[ACKNOWLEDGED_SEQ] then
    local before = record[MENTIONS] and #record[MENTIONS] or 0
    local newest = before > 0 and record[MENTIONS][before] or 0
    add_mention(record, change.m)
    differs = differs or #record[MENTIONS] ~= before or record[MENTIONS][before] ~= newest
  elseif change.m and not differs then
    -- The user has read further, for example with a message of their own at the same moment. The event is still due.
    differs = not is_logged(change.e, int(change.at))
  end
  if not differs then return unchanged(conversation) end
  return changed_one(change, { conversation = conversation, record = record, old = old, is_new = previous == nil })
end

-- Invalidate. c (a session; absent: none): the state is up to date if it has this session.
function changes.doubt(change)
  if change.c and get(change.c) then return unchanged(change.c) end
  return UNKNOWN
end

-- ForgetChannel. The channel was deleted: its session is removed, which is no event.
function changes.forget(change)
  local channel = change.c
  restart_channel_load()
  redis.call('HDEL', TAG .. 'channel_ticks', channel)
  local is_loaded = find_channels()
  if is_loaded == nil then return UNKNOWN end
  local record = is_loaded and get(channel)
  if record then
    local old, entries = contribution_before(channel, record), {}
    for entry in pairs(old.entries) do entries[#entries + 1] = entry end
    if old.mute_end then move_mute_end(channel, nil) end
    redis.call('HDEL', TAG .. 'channels', channel)
    redis.call('ZREM', TAG .. 'channel_index', channel)
    add_to_meta({ channels = -1, channels_listed = -call_with('ZREM', TAG .. 'channel_list', entries) })
  end
  return unchanged(channel)
end

-- Expire. s (seq), n: messages up to there are expired. Without a visible difference it is no event.
function changes.expire(change)
  local conversation = change.c
  if is_channel(conversation) then
    restart_channel_load()
    local is_loaded = find_channels()
    if is_loaded == nil then return UNKNOWN end
    if not is_loaded then return unchanged() end
  end
  store_folded()
  local record = get(conversation)
  if record == nil or change.s <= (record[FLOOR_SEQ] or 0) then return unchanged(conversation) end
  local old = contribution(conversation, record)
  local unread, mentioned = unread_count(conversation, record), unread_mention_count(conversation, record)
  -- A session in a channel takes the floor from the head.
  if not is_channel(conversation) then record[FLOOR_SEQ], record[FLOOR_N] = change.s, change.n end
  local kept = {}
  for _, seq in ipairs(record[MENTIONS] or {}) do
    if seq > change.s then kept[#kept + 1] = seq end
  end
  record[MENTIONS] = kept
  local has_changed = unread_count(conversation, record) ~= unread
    or unread_mention_count(conversation, record) ~= mentioned
    or (not is_channel(conversation) and record[WRITE_SEQ] <= change.s)
  if not has_changed then
    put(conversation, record, old)
    return unchanged(conversation)
  end
  local decision = changed_one(change, { conversation = conversation, record = record, old = old })
  decision.wakes = true
  return decision
end

local function decide(kind, text)
  if messages[kind] then return messages[kind](text) end
  -- A server of another version may have left a change of a kind that is not known here.
  if not changes[kind] then return UNKNOWN end
  return changes[kind](cjson.decode(text))
end

-- Applies one change to the cached state.
-- Returns { status, tick, tick before, total, old read seq or -1, old unread, conversation, record, ... } with the
-- status ok or applied (nothing was done), or { not_cached } if the state was dropped because MongoDB has newer data.
local function apply(kind, text)
  local decision = decide(kind, text)
  if decision.unknown then
    drop_state()
    return { 'not_cached' }
  end
  local logged = decision.logged or decision.noted
  if logged then
    store_folded()
    local previous = state.clock
    local tick = math.max(previous + 1, logged.at)
    append_log(int(tick), int(previous), logged.e)
    redis.call('HSET', META, 'clock', int(tick))
    state.clock = tick
    if decision.noted then note_channel_change(logged.c, int(tick), text) end
    return { 'ok', int(tick), int(previous), state.total, -1, 0 }
  end
  if decision.unchanged then
    store_folded()
    local clock = int(state.clock)
    local answer = { 'applied', clock, clock, state.total, -1, 0 }
    for _, conversation in ipairs(decision.unchanged) do
      answer[#answer + 1] = conversation
      answer[#answer + 1] = redis.call('HGET', records_key(conversation), conversation) or ''
    end
    return answer
  end
  local tick, previous, changed = store_event(decision.moves, decision.at, decision.entry)
  if decision.following then append_events(decision.following) end
  if decision.wakes then wake_hubs() end
  local old = decision.old or { read_seq = -1, unread = 0 }
  return { 'ok', int(tick), int(previous), state.total, old.read_seq, old.unread, unpack(changed) }
end

-- Applies changes to the user's cached state, in order, if it is cached. changes: kind and change in turn, from an
-- index on.
-- Returns { 'ok', epoch, servers with connections of the user, outcome, ... } with the outcome of each change, or
-- { status }: not_cached, or pending (a running load will apply the changes).
local function apply_all(changes, first)
  local epoch = current_epoch('change')
  if epoch then
    local answer = { 'ok', epoch, list_routes() }
    for i = first, #changes, 2 do
      local outcome = apply(changes[i], changes[i + 1])
      if outcome[1] == 'not_cached' then return outcome end
      answer[#answer + 1] = outcome
    end
    touch()
    return answer
  end
  local is_loading = redis.call('HEXISTS', LOADING, 'token') == 1
  if is_loading then
    for i = first, #changes, 2 do redis.call('RPUSH', PENDING, changes[i], changes[i + 1]) end
    redis.call('PEXPIRE', PENDING, PENDING_MS)
    redis.call('HINCRBY', LOADING, 'pending', #changes - first + 1)
  end
  -- If the state is not cached, this is the only way to notify servers that hold connections of the user.
  wake_hubs()
  return { is_loading and 'pending' or 'not_cached' }
end
