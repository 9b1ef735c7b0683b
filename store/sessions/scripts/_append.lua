-- Appends messages to a user's state without applying them to the session: often nobody looks at it before the next
-- message comes. The log gets their events, the clock their ticks, and a field of `meta` notes what `fold` applies
-- later. While messages wait for a session, nothing else changes it.
--
-- The field w:<conversation> has, separated by spaces: seq and n of the newest message; time of the newest countable
-- one (ms; 0: none); the session's tick; 1 if the session is in a subBiz, else 0; seq of the newest countable message
-- of others; seq and n of the user's own newest one (0: none); and the seqs of those that mention the user.

-- Returns the servers in a copy of the routes that hold connections now, separated by spaces.
local function valid_routes(routes)
  local until_ms, server = string.match(routes, '^(%d+) (%S+)$')
  if until_ms then return tonumber(until_ms) >= NOW and server or '' end
  local servers = {}
  for until_ms, server in string.gmatch(routes, '(%d+) (%S+)') do
    if tonumber(until_ms) >= NOW then servers[#servers + 1] = server end
  end
  return table.concat(servers, ' ')
end

-- Returns whether the state may be shown: the answer to a user's own message has the session.
local function may_show()
  return is_complete(unpack(redis.call('HMGET', META, 'records', 'listed', 'timed', 'held')))
end

-- Returns the outcome of the user's own message: see `append`. text: the session's record. waiting: the field, without
-- this message, or false.
local function own_outcome(message, text, waiting, session_tick, event_tick)
  local conversation, record = message.conversation, cjson.decode(text)
  if waiting then receive_waiting(conversation, record, waiting) end
  local n_before = message.written_ms > 0 and message.n - 1 or message.n
  local old_read_seq, old_unread = record[ACKNOWLEDGED_SEQ], count_unread(n_before, record[READ_N])
  receive(conversation, record, message.seq, message.n, message.written_ms, 0, message.seq, message.n, '')
  record[ACTIVE_TS] = session_tick
  return { session_tick, event_tick, old_read_seq, old_unread, encode(record) }
end

-- Appends messages if the first one is the next of its conversation.
-- messages: of one conversation, with consecutive seqs; see `read_change` in fan_out.lua. has_own: one is the user's.
-- outcomes: gets an outcome for each message: the tick of the event; { tick of the session, tick of the event } if the
-- session is in a subBiz; { tick of the session, tick of the event, old read seq, old unread, record } for an own one.
-- It also gets epoch, servers (valid_routes), previous (tick before the first event), and differs: true unless all
-- outcomes are the messages' times.
-- Returns APPENDED; NOT_CACHED if no server has to know that the state is not cached; or nil: nothing was done, because
-- the general code has to decide.
local function append(messages, outcomes)
  local first = messages[1]
  local conversation = first.conversation
  local field = 'w:' .. conversation
  local meta = redis.call('HMGET', META, 'epoch', 'clock', 'due', 'servers', 'touched', 'waiting', field)
  local epoch, clock, due, routes, touched_ms, noted = meta[1], meta[2], tonumber(meta[3]), meta[4], meta[5], meta[7]
  if not epoch then return redis.call('EXISTS', LOADING, ROUTES) == 0 and NOT_CACHED or nil end
  if (due and due <= NOW) or not routes then return nil end
  touched = tonumber(touched_ms)
  local needs_touch = not touched or math.abs(NOW - touched) > TOUCH_INTERVAL_MS
  if needs_touch and not is_whole_slot(META) then return nil end
  if messages.has_own and not may_show() then return nil end
  local record = (messages.has_own or not noted) and redis.call('HGET', SESSIONS, conversation)
  local waiting, seq, written_ms, in_sub_biz, _ = tonumber(meta[6]) or 0, nil, '0', '0', nil
  local others_seq, own_seq, own_n, mentions = '0', '0', '0', ''
  if noted then
    if #noted > MAX_WAITING_LENGTH then return nil end
    seq, _, written_ms, _, in_sub_biz, others_seq, own_seq, own_n, mentions = string.match(noted, WAITING_PATTERN)
  elseif record and waiting < MAX_WAITING and not string.find(record, IS_FORMER_MEMBER, 1, true) then
    seq = string.match(record, WRITE_SEQ_PATTERN)
    if string.find(record, IS_IN_SUB_BIZ, 1, true) then in_sub_biz = '1' end
  end
  if not seq or seq + 1 ~= first.seq then return nil end
  local gateway, tick, before = tonumber(in_sub_biz), tonumber(clock), clock
  outcomes.epoch, outcomes.servers, outcomes.previous = epoch, valid_routes(routes), outcomes.previous or tick
  for i = 1, #messages do
    local message = messages[i]
    local at, kind = message.at, message.kind
    local moved_at = math.max(tick + 1, at)
    tick = moved_at + gateway
    local outcome, tick_text = tick, tick == at and message.at_text or int(tick)
    if kind == 'own' then
      outcome = own_outcome(message, record, noted, moved_at, tick)
      own_seq, own_n = message.seq_text, message.n_text
    else
      if gateway > 0 then outcome = { moved_at, tick } end
      if message.written_ms > 0 then others_seq = message.seq_text end
      if kind == 'mention' then mentions = mentions .. ' ' .. message.seq_text end
    end
    outcomes[#outcomes + 1] = outcome
    if outcome ~= at then outcomes.differs = true end
    append_log(tick_text, before, message.entry)
    local session_tick = gateway == 0 and tick_text or int(moved_at)
    before = tick_text
    if message.written_ms > tonumber(written_ms) then written_ms = message.at_text end
    noted = message.seq_text .. ' ' .. message.n_text .. ' ' .. written_ms .. ' ' .. session_tick .. ' ' .. in_sub_biz
      .. ' ' .. others_seq .. ' ' .. own_seq .. ' ' .. own_n .. mentions
  end
  if meta[7] then
    redis.call('HSET', META, 'clock', before, field, noted)
  else
    redis.call('HSET', META, 'clock', before, field, noted, 'waiting', waiting + 1)
  end
  if needs_touch then
    touch()
  elseif key_created then
    redis.call('PEXPIRE', LOG, IDLE_MS)
  end
  key_created = false
  return APPENDED
end

-- Appends an event that changes no session. Waiting messages stay as they are. event: at (ms), e (log entry), again (1:
-- it may have been applied before).
-- outcomes: gets the tick of the event, and what `append` adds. Returns what `append` returns.
local function append_event(event, outcomes)
  if event.again == 1 then return nil end
  local meta = redis.call('HMGET', META, 'epoch', 'clock', 'due', 'servers', 'touched')
  local epoch, before, due, routes, touched_ms = meta[1], meta[2], tonumber(meta[3]), meta[4], tonumber(meta[5])
  if not epoch then return redis.call('EXISTS', LOADING, ROUTES) == 0 and NOT_CACHED or nil end
  if (due and due <= NOW) or not routes then return nil end
  if not touched_ms or math.abs(NOW - touched_ms) > TOUCH_INTERVAL_MS then return nil end
  local clock = tonumber(before)
  local tick = math.max(clock + 1, event.at)
  outcomes.epoch, outcomes.servers, outcomes.previous = epoch, valid_routes(routes), outcomes.previous or clock
  outcomes[#outcomes + 1] = tick
  append_log(int(tick), before, event.e)
  redis.call('HSET', META, 'clock', int(tick))
  if key_created then redis.call('PEXPIRE', LOG, IDLE_MS) end
  key_created = false
  return APPENDED
end
