-- The fast path of `apply`. It handles the next messages of a conversation (one message of any sender, or several of
-- other users) for a session in no subBiz and no category, if no part of the user's state was evicted. This is nearly
-- every call, so it avoids the general code. In all other cases it leaves the loop, and the rest of the script runs. A
-- write that was made here before leaving is repeated there with the same result, and creates no key that was evicted.
-- Returns what `apply` returns, except for messages of other users: 1 if no server holds connections of the user and
-- the ticks are the given times, else { 'routed', epoch, tick before, tick of each message, routes ... }.
repeat
  local now_ms, kind, first_message, has_more = tonumber(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
  local is_own, meta = kind == 'own', message_meta
  if not meta or not meta[1] or (is_own and has_more) then break end
  local call, number, format, match, max = redis.call, tonumber, string.format, string.match, math.max
  local META, tag = KEYS[1], string.sub(KEYS[1], 1, -5)
  local SESSIONS, INDEX, LIST, LOG = tag .. 'sessions', tag .. 'index', tag .. 'list', tag .. 'log'
  local epoch, clock, total, listed = meta[1], meta[2], number(meta[3]) or 0, number(meta[4])
  local mute_count, next_mute_end_ms, lock_token = meta[5], number(meta[6]), meta[7]
  local routes, touched_ms = meta[8], number(meta[9])
  if (mute_count ~= '0' and call('EXISTS', tag .. 'mutes') == 0)
    or (next_mute_end_ms or now_ms + 1) <= now_ms
    or not routes or (lock_token and call('EXISTS', tag .. 'lock') == 0) then
    break
  end
  local conversation, seq_text, n_text, countable, at_text, entry = match(first_message, MESSAGE_PATTERN)
  local text = call('HGET', SESSIONS, conversation)
  if not text then break end
  -- The fixed fields in their order, as text, and the rest of the record.
  local write_seq, n, read_seq, read_n, delivered_seq, priority, active_ts, write_ts, rest = match(text, FIXED_PATTERN)
  local is_private = string.sub(conversation, 1, 2) == 'p_'
  local seq, at, message_n = number(seq_text), number(at_text), number(n_text)
  -- Not the next message, or the first one of a private conversation.
  if not write_seq or number(write_seq) + 1 ~= seq or (write_seq == '0' and is_private) then break end
  local muted = false
  if rest ~= '' then
    if decides_lists(rest) or (is_own and string.find(rest, HAS_MENTIONS, 1, true)) then break end
    muted = string.find(rest, IS_MUTED, 1, true)
  end
  local old_n, old_read_n, old_write_ts = number(n), number(read_n), number(write_ts)
  local old_delivered_seq = number(delivered_seq)
  local new_n, new_read_n, new_write_ts = max(old_n, message_n), old_read_n, old_write_ts
  if countable == '1' then new_write_ts = max(old_write_ts, at) end
  local previous = number(clock)
  local tick = max(previous + 1, at)
  local ticks, entries, as_given = { tick }, { entry }, tick == at
  if has_more then
    local is_next = true
    for i = 5, #ARGV, 2 do
      local conversation_i, seq_i, n_i, countable_i, at_i, entry_i = match(ARGV[i + 1], MESSAGE_PATTERN)
      seq, is_next = seq + 1, ARGV[i] == 'message' and conversation_i == conversation and number(seq_i) == seq + 1
      if not is_next then break end
      at = number(at_i)
      new_n = max(new_n, number(n_i))
      if countable_i == '1' then new_write_ts = max(new_write_ts, at) end
      tick = max(tick + 1, at)
      ticks[#ticks + 1], entries[#entries + 1], as_given = tick, entry_i, as_given and tick == at
    end
    if not is_next then break end
  end
  local old_read_seq, undelivered = number(read_seq), not is_own and old_delivered_seq < seq
  if is_own then
    read_seq, delivered_seq = max(old_read_seq, seq), max(old_delivered_seq, seq)
    new_read_n = max(old_read_n, message_n)
  elseif is_private then
    -- Senders have read their own messages.
    local peer_read_seq, peer_delivered_seq, others = match(rest, PEER_PATTERN)
    rest = format(PEER_FORM, max(number(peer_read_seq) or 0, seq), max(number(peer_delivered_seq) or 0, seq))
      .. (others or rest)
  end
  if call('ZADD', INDEX, 'XX', 'CH', tick, conversation) == 0 then break end
  -- The entries in lists, in the form of `contribution`.
  local moves = new_write_ts ~= old_write_ts
  local list_member = list_entry('m', list_position(number(priority), old_write_ts), conversation)
  if (moves and call('ZREM', LIST, list_member) or call('ZSCORE', LIST, list_member) and 1 or 0) == 0 then break end
  local was_undelivered, meta_changes = old_delivered_seq < number(write_seq), { 'clock', tick }
  local becomes_undelivered = undelivered and not was_undelivered
  if moves then
    list_member = list_entry('m', list_position(number(priority), new_write_ts), conversation)
    if becomes_undelivered then
      call('ZADD', LIST, 0, list_member, 0, list_entry('o', 0, conversation))
    else
      call('ZADD', LIST, 0, list_member)
    end
    if listed < 3 then call('PEXPIRE', LIST, IDLE_MS) end
  elseif becomes_undelivered then
    call('ZADD', LIST, 0, list_entry('o', 0, conversation))
  end
  if undelivered ~= was_undelivered then
    if was_undelivered then call('ZREM', LIST, list_entry('o', 0, conversation)) end
    meta_changes[3], meta_changes[4] = 'listed', listed + (undelivered and 1 or -1)
  end
  local added_unread = 0
  if not muted then added_unread = count_unread(new_n, new_read_n) - count_unread(old_n, old_read_n) end
  if added_unread ~= 0 then
    total = total + added_unread
    meta_changes[#meta_changes + 1], meta_changes[#meta_changes + 2] = 'total', total
  end
  local touches = not touched_ms or math.abs(now_ms - touched_ms) > TOUCH_INTERVAL_MS
  if touches then meta_changes[#meta_changes + 1], meta_changes[#meta_changes + 2] = 'touched', now_ms end
  text = format(FIXED_FORM, seq, new_n, read_seq, new_read_n, delivered_seq, priority, tick, new_write_ts)
  text = text .. rest .. '}'
  call('HSET', SESSIONS, conversation, text)
  call('HSET', META, unpack(meta_changes))
  local before = clock
  for i = 1, #ticks do
    local tick_text = format('%.0f', ticks[i])
    local id = tick_text .. '-0'
    if not call('XADD', LOG, 'NOMKSTREAM', 'MAXLEN', '~', LOG_LENGTH, id, 'p', before, 'e', entries[i]) then
      call('XADD', LOG, id, 'p', before, 'e', entries[i])
      call('PEXPIRE', LOG, IDLE_MS)
    end
    before = tick_text
  end
  if touches then
    for _, key in ipairs({ META, SESSIONS, INDEX, LIST, LOG, tag .. 'mutes', tag .. 'routes' }) do
      call('PEXPIRE', key, IDLE_MS)
    end
  end
  local servers = {}
  for until_ms, server in string.gmatch(routes, '(%d+) (%S+)') do
    if number(until_ms) >= now_ms then servers[#servers + 1] = server end
  end
  if is_own then
    local old_unread = count_unread(message_n - number(countable), old_read_n)
    local outcome = { 'ok', format('%.0f', tick), clock, total, old_read_seq, old_unread, conversation, text }
    return { 'ok', epoch, servers, outcome }
  end
  if as_given and #servers == 0 then return 1 end
  for i = 1, #servers do ticks[#ticks + 1] = servers[i] end
  return { 'routed', epoch, previous, unpack(ticks) }
until true
