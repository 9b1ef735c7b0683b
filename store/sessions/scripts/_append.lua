-- Appends messages to a user's state without applying them to the session: often nobody looks at it before the next
-- message comes. The log gets their events, the clock their ticks, and a field of `meta` keeps what `fold` applies
-- later: w:<conversation> has the newest message's seq and n, the time of the newest countable one (ms; 0: none), the
-- session's tick, and 1 if the session is in a subBiz. While messages wait for a session, nothing else changes it.

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

-- Appends messages of others that mention the user in none of them, if the first one is the next of its conversation.
-- messages: of one conversation with consecutive seqs; each with conversation, seq, n, written_ms, at, at_text, entry.
-- outcomes: gets the tick of each event, or { tick of the session } if the session is in a subBiz; then the event's tick
-- is one later. It also gets epoch, servers (valid_routes), previous (tick before the first event), and differs: true if
-- a tick is not the message's time.
-- Returns APPENDED; NOT_CACHED if nobody has to know that the state is not cached; or nil: nothing was done, because
-- the general code has to decide.
local function append(messages, outcomes)
  local first = messages[1]
  local field = 'w:' .. first.conversation
  local meta = redis.call('HMGET', META, 'epoch', 'clock', 'due', 'servers', 'touched', 'waiting', field)
  local epoch, clock, due, routes, touched_ms, newest = meta[1], meta[2], tonumber(meta[3]), meta[4], meta[5], meta[7]
  if not epoch then return redis.call('EXISTS', LOADING, ROUTES) == 0 and NOT_CACHED or nil end
  if (due and due <= NOW) or not routes or not touched_ms or math.abs(NOW - touched_ms) > TOUCH_INTERVAL_MS then
    return nil
  end
  local seq, n, written_ms, last, in_sub_biz
  if newest then
    seq, n, written_ms, last, in_sub_biz = string.match(newest, WAITING_PATTERN)
  else
    local record = redis.call('HGET', SESSIONS, first.conversation)
    seq, n, written_ms = record and string.match(record, WRITE_SEQ_PATTERN), 0, 0
    if not seq or string.find(record, IS_FORMER_MEMBER, 1, true) then return nil end
    in_sub_biz = string.find(record, IS_IN_SUB_BIZ, 1, true) and '1' or '0'
  end
  local waiting = tonumber(meta[6]) or 0
  if tonumber(seq) + 1 ~= first.seq or (not newest and waiting >= MAX_WAITING) then return nil end
  local gateway, tick, before = tonumber(in_sub_biz), tonumber(clock), clock
  outcomes.epoch, outcomes.servers, outcomes.previous = epoch, valid_routes(routes), outcomes.previous or tick
  for i = 1, #messages do
    local message = messages[i]
    last = math.max(tick + 1, message.at)
    tick = last + gateway
    outcomes.differs = outcomes.differs or last ~= message.at
    outcomes[#outcomes + 1] = gateway == 0 and tick or { last }
    local text = tick == message.at and message.at_text or int(tick)
    append_log(text, before, message.entry)
    before, n, written_ms = text, math.max(n, message.n), math.max(written_ms, message.written_ms)
  end
  newest = string.format('%.0f %.0f %.0f %.0f %s', messages[#messages].seq, n, written_ms, last, in_sub_biz)
  if meta[7] then
    redis.call('HSET', META, 'clock', before, field, newest)
  else
    redis.call('HSET', META, 'clock', before, field, newest, 'waiting', waiting + 1)
  end
  if key_created then
    redis.call('PEXPIRE', LOG, IDLE_MS)
    key_created = false
  end
  return APPENDED
end
