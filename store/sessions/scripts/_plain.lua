-- The beginning of `apply`: messages that are the next of a conversation (one, or several of others), to a session that is in no subBiz and no category, of a
-- user whose state is whole. That is nearly every call, so it does without what other changes need. Whatever is otherwise goes
-- on to the rest of the script, which finds nothing done, or done what it does once more: what is written here before it is
-- certain is the same as there, and no key that was evicted comes into being.
-- It answers as `apply` does; but of messages of others 1 where nobody listens and the ticks are the times given, else {'told',
-- epoch, tick before, tick of each, routes ...}.
repeat
  local own = ARGV[3] == 'own'
  if ARGV[2] ~= '' or not (own and not ARGV[5] or ARGV[3] == 'message') then break end
  local call, number = redis.call, tonumber
  local META, tag = KEYS[1], string.sub(KEYS[1], 1, -5)
  local SESSIONS, INDEX, LIST, LOG = tag .. 'sessions', tag .. 'index', tag .. 'list', tag .. 'log'
  local now, idle_ms = number(ARGV[1]), 86400000
  local meta = call('HMGET', META, 'epoch', 'clock', 'total', 'listed', 'timed', 'due', 'held', 'routes', 'touched')
  local epoch, listed, touched = meta[1], number(meta[4]), number(meta[9])
  if not epoch then
    if call('EXISTS', tag .. 'loading', tag .. 'routes') == 0 then return { 'cold' } end
    break
  end
  if (meta[5] ~= '0' and call('EXISTS', tag .. 'mutes') == 0) or (number(meta[6]) or now + 1) <= now
    or not meta[8] or (meta[7] and call('EXISTS', tag .. 'lock') == 0) then
    break
  end
  local c, seq_text, n_text, countable, at_text, event = string.match(ARGV[4], '^(%S+) (%d+) (%d+) ([01]) (%d+) (.*)$')
  local text = call('HGET', SESSIONS, c)
  if not text then break end
  local s, n, r, rn, d, p, w, more =
    string.match(text, '^{"s":(%d+),"n":(%d+),"r":(%d+),"rn":(%d+),"d":(%d+),"p":(%d+),"a":%d+,"w":(%d+)(.*)}$')
  local seq, at = number(seq_text), number(at_text)
  -- A message that was passed over or came before; one of a private conversation that does not exist yet.
  if not s or number(s) + 1 ~= seq or (s == '0' and string.sub(c, 1, 2) == 'p_') then break end
  local muted = false
  if more ~= '' then
    local find = string.find
    -- Former member, ended, deleted, in a category or subBiz; what mentions the user, if that is read by this.
    if find(more, '"f":', 1, true) or find(more, '"dd":', 1, true) or find(more, '"x":', 1, true)
      or find(more, '"ca":', 1, true) or find(more, '"sb":', 1, true) or (own and find(more, '"ms":', 1, true)) then
      break
    end
    muted = find(more, '"m":1', 1, true)
  end
  local old_n, old_r, old_rn, old_d, old_w = number(n), number(r), number(rn), number(d), number(w)
  local message_n = number(n_text)
  local new_n, new_rn, new_w, undelivered = math.max(old_n, message_n), old_rn, old_w, true
  if countable == '1' then new_w = math.max(old_w, at) end
  local previous = number(meta[2])
  local tick = math.max(previous + 1, at)
  local ticks, events, timely = { tick }, { event }, tick == at
  if ARGV[5] then
    local is_next = true
    for i = 5, #ARGV, 2 do
      local c2, s2, n2, k2, at2, e2 = string.match(ARGV[i + 1], '^(%S+) (%d+) (%d+) ([01]) (%d+) (.*)$')
      seq, is_next = seq + 1, ARGV[i] == 'message' and c2 == c and number(s2) == seq + 1
      if not is_next then break end
      seq_text, at, message_n = s2, number(at2), number(n2)
      new_n = math.max(new_n, message_n)
      if k2 == '1' then new_w = math.max(new_w, at) end
      tick = math.max(tick + 1, at)
      ticks[#ticks + 1], events[#events + 1], timely = tick, e2, timely and tick == at
    end
    if not is_next then break end
  end
  if own then
    if old_r < seq then r = seq_text end
    if old_d < seq then d = seq_text end
    new_rn, undelivered = math.max(old_rn, message_n), false
  else
    undelivered = old_d < seq
    if string.sub(c, 1, 2) == 'p_' then
      -- Who wrote it has read it.
      local pr, pd, rest = string.match(more, '^,"pr":(%d+),"pd":(%d+)(.*)$')
      more = string.format(',"pr":%.0f,"pd":%.0f%s', math.max(number(pr) or 0, seq), math.max(number(pd) or 0, seq),
        rest or more)
    end
  end
  if call('ZADD', INDEX, 'XX', 'CH', tick, c) == 0 then break end
  -- The places in lists, as `standing` has them.
  local pinned, moves = number(p) * 4398046511104, new_w ~= old_w
  local place = string.format('m\n%016.0f\n%s', pinned + old_w, c)
  if (moves and call('ZREM', LIST, place) or call('ZSCORE', LIST, place) and 1 or 0) == 0 then break end
  local was_undelivered, moved_total, fields = old_d < number(s), 0, { 'clock', tick }
  if moves then
    place = string.format('m\n%016.0f\n%s', pinned + new_w, c)
    if undelivered and not was_undelivered then
      call('ZADD', LIST, 0, place, 0, 'o\n0000000000000000\n' .. c)
    else
      call('ZADD', LIST, 0, place)
    end
    if listed < 3 then call('PEXPIRE', LIST, idle_ms) end
  elseif undelivered and not was_undelivered then
    call('ZADD', LIST, 0, 'o\n0000000000000000\n' .. c)
  end
  if undelivered ~= was_undelivered then
    if was_undelivered then call('ZREM', LIST, 'o\n0000000000000000\n' .. c) end
    fields[3], fields[4] = 'listed', listed + (undelivered and 1 or -1)
  end
  local total = number(meta[3]) or 0
  if not muted then moved_total = math.max(0, new_n - new_rn) - math.max(0, old_n - old_rn) end
  if moved_total ~= 0 then
    total = total + moved_total
    fields[#fields + 1], fields[#fields + 2] = 'total', total
  end
  local hours = not touched or math.abs(now - touched) > 3600000
  if hours then fields[#fields + 1], fields[#fields + 2] = 'touched', now end
  text = string.format('{"s":%s,"n":%.0f,"r":%s,"rn":%.0f,"d":%s,"p":%s,"a":%.0f,"w":%.0f%s}', seq_text, new_n, r, new_rn, d, p,
    tick, new_w, more)
  call('HSET', SESSIONS, c, text)
  call('HSET', META, unpack(fields))
  local before = meta[2]
  for i = 1, #ticks do
    local at_tick = string.format('%.0f', ticks[i])
    if not call('XADD', LOG, 'NOMKSTREAM', 'MAXLEN', '~', 1200, at_tick .. '-0', 'p', before, 'e', events[i]) then
      call('XADD', LOG, at_tick .. '-0', 'p', before, 'e', events[i])
      call('PEXPIRE', LOG, idle_ms)
    end
    before = at_tick
  end
  if hours then
    for _, key in ipairs({ META, SESSIONS, INDEX, LIST, LOG, tag .. 'mutes', tag .. 'routes' }) do call('PEXPIRE', key, idle_ms) end
  end
  local servers = {}
  for until_ms, server in string.gmatch(meta[8], '(%d+) (%S+)') do
    if number(until_ms) >= now then servers[#servers + 1] = server end
  end
  if own then
    local unread = math.max(0, message_n - number(countable) - old_rn)
    return { 'ok', epoch, servers, { 'ok', string.format('%.0f', tick), meta[2], total, old_r, unread, c, text } }
  end
  if timely and #servers == 0 then return 1 end
  for i = 1, #servers do ticks[#ticks + 1] = servers[i] end
  return { 'told', epoch, previous, unpack(ticks) }
until true
