-- What may happen to a user's sessions. Each change takes its fields (a JSON object, but for messages) and answers {moves, at, event, old} for record_event,
-- or {refusal}: applied (nothing to do, or done before) or unknown. old: read position and unread count before, for
-- those who tell senders.
local MAX_STRETCHES = 64

local function applied(...)
  return { refusal = 'applied', conversations = { ... } }
end

local UNKNOWN = { refusal = 'unknown' }

-- Seqs that were passed over may still come: their messages were given a place and are not durable yet.
local function remember_gap(rec, seq)
  if seq == rec.s + 1 then return end
  rec.g = rec.g or {}
  rec.g[#rec.g + 1] = rec.s + 1
  rec.g[#rec.g + 1] = seq - 1
end

-- Whether seq is one that may still come. It has come now.
local function take_gap(rec, seq)
  local stretches, kept, found = rec.g or {}, {}, false
  for i = 1, #stretches, 2 do
    local first, last = stretches[i], stretches[i + 1]
    if first <= seq and seq <= last then
      found = true
      if first < seq then
        kept[#kept + 1] = first
        kept[#kept + 1] = seq - 1
      end
      if seq < last then
        kept[#kept + 1] = seq + 1
        kept[#kept + 1] = last
      end
    else
      kept[#kept + 1] = first
      kept[#kept + 1] = last
    end
  end
  rec.g = kept
  return found
end

-- A seq that may still come when the state is loaded is among those that were read with it.
local function mention(rec, seq)
  rec.ms = rec.ms or {}
  for _, known in ipairs(rec.ms) do
    if known == seq then return end
  end
  rec.ms[#rec.ms + 1] = seq
  if #rec.ms > MAX_MENTIONS then table.remove(rec.ms, 1) end
end

local function read_up_to(rec, seq, n)
  rec.r = math.max(rec.r, seq)
  rec.rn = math.max(rec.rn, n)
  rec.d = math.max(rec.d, seq)
  local left = {}
  for _, m in ipairs(rec.ms or {}) do
    if m > rec.r then left[#left + 1] = m end
  end
  rec.ms = left
end

local changes = {}

-- A committed message, as text: "<c> <s> <n> <k> <at> <e>" (k: 1 if it counts as unread, e: event). own: that the user wrote and
-- counts; mention: that counts and mentions the user.
local function message(text, own, mentioned)
  local change = {}
  change.c, change.s, change.n, change.k, change.at, change.e = string.match(text, '^(%S+) (%d+) (%d+) ([01]) (%d+) (.*)$')
  for _, field in ipairs({ 's', 'n', 'k', 'at' }) do change[field] = tonumber(change[field]) end
  local private = string.sub(change.c, 1, 2) == 'p_'
  local rec = get(change.c)
  local fresh, was = rec == nil, standing(change.c, rec)
  if fresh then
    if not private then return UNKNOWN end
    rec = { s = 0, n = 0, r = 0, rn = 0, d = 0, p = 0, a = 0, w = 0, sb = string.match(change.c, '~(.*)$') }
  end
  if rec.f and change.s > rec.f then return applied(change.c) end
  -- For the sender: how many messages of others the own one makes read. Where some were passed over, they may be the user's own: -1.
  local old = { r = rec.r, unread = math.max(0, change.n - change.k - rec.rn) }
  if own and old.unread > 0 and change.s ~= rec.s + 1 then old.unread = -1 end
  if change.s > rec.s then
    remember_gap(rec, change.s)
    rec.s = change.s
  elseif not take_gap(rec, change.s) then
    return applied(change.c)
  end
  -- More than can be kept track of: begin anew, which subscribers are told, rather than lose one in silence.
  if rec.g and #rec.g > 2 * MAX_STRETCHES then return UNKNOWN end
  rec.n = math.max(rec.n, change.n)
  if change.k == 1 then rec.w = math.max(rec.w, change.at) end
  if private and not own then
    -- Who wrote it has read it.
    rec.pr = math.max(rec.pr or 0, change.s)
    rec.pd = math.max(rec.pd or 0, change.s)
  end
  if mentioned and change.s > rec.r then mention(rec, change.s) end
  if own then read_up_to(rec, change.s, change.n) end
  return { moves = { { c = change.c, rec = rec, was = was, fresh = fresh } }, at = change.at, event = change.e, old = old }
end

local messages = {
  message = function(text) return message(text, false, false) end,
  own = function(text) return message(text, true, false) end,
  mention = function(text) return message(text, false, true) end,
}

-- The user read: c, r, rn, at, e. A reader whose marks are there already changes nothing.
function changes.read(change)
  local rec = get(change.c)
  if rec == nil then return UNKNOWN end
  if change.r <= rec.r and not rec.us then return applied(change.c) end
  local was = standing(change.c, rec)
  local old = { r = rec.r, unread = unread(change.c, rec) }
  read_up_to(rec, change.r, change.rn)
  rec.us = nil
  return { moves = { { c = change.c, rec = rec, was = was } }, at = change.at, event = change.e, old = old }
end

-- The user set something about sessions: cs (conversations), f (fields to set), u (fields to unset), w (1: writeTs
-- moves), at, e. All of them become one event.
function changes.set(change)
  local moves = {}
  for _, conversation in ipairs(change.cs) do
    local rec = get(conversation)
    if rec == nil then return UNKNOWN end
    local was, differs = standing(conversation, rec), false
    for field, value in pairs(change.f) do
      if rec[field] ~= value then rec[field], differs = value, true end
    end
    for _, field in ipairs(change.u) do
      if rec[field] ~= nil then rec[field], differs = nil, true end
    end
    if change.w == 1 and rec.w < change.at then rec.w, differs = change.at, true end
    if change.w == 1 and rec.ow then rec.ow = math.max(rec.ow, change.at) end
    if differs then moves[#moves + 1] = { c = conversation, rec = rec, was = was } end
  end
  if #moves == 0 then return applied(unpack(change.cs)) end
  return { moves = moves, at = change.at, event = change.e }
end

-- The user received: c, d, at, e.
function changes.delivered(change)
  local rec = get(change.c)
  if rec == nil then return UNKNOWN end
  if change.d <= rec.d then return applied(change.c) end
  local was = standing(change.c, rec)
  rec.d = change.d
  return { moves = { { c = change.c, rec = rec, was = was } }, at = change.at, event = change.e }
end

-- An event of a conversation that changes nothing in the session: c, at, e.
function changes.notice(change)
  local rec = get(change.c)
  if rec == nil then return UNKNOWN end
  local move = { c = change.c, rec = rec, was = standing(change.c, rec), still = true }
  return { moves = { move }, at = change.at, event = change.e }
end

-- The other user of a private conversation received or read what this user sent: c, s, k (R read, D received), at, e.
function changes.receipt(change)
  local rec = get(change.c)
  if rec == nil then return UNKNOWN end
  local was = standing(change.c, rec)
  local told = change.k == 'R' and 'pt' or 'dt'
  if change.s <= math.max(rec.pt or 0, rec[told] or 0) then return applied(change.c) end
  rec[told] = change.s
  local moved = change.s > (rec.pd or 0)
  rec.pd = math.max(rec.pd or 0, change.s)
  if change.k == 'R' then
    moved = moved or change.s > (rec.pr or 0)
    rec.pr = math.max(rec.pr or 0, change.s)
  end
  local move = { c = change.c, rec = rec, was = was, still = not moved }
  return { moves = { move }, at = change.at, event = change.e }
end

-- Whether the very same event was told before: asked only where a server takes over what another one left.
local function is_logged(event)
  for _, row in ipairs(redis.call('XREVRANGE', LOG, '+', '-')) do
    if row[2][4] == event then return true end
  end
  return false
end

-- A message that the user can see was edited or recalled: c, s, at, e, again (1: it may have been told before). The session
-- moves where it is the newest.
function changes.revise(change)
  local rec = get(change.c)
  if rec == nil then return UNKNOWN end
  if rec.f then return applied(change.c) end
  if change.s > rec.s then return UNKNOWN end
  if change.again == 1 and is_logged(change.e) then return applied(change.c) end
  local was = standing(change.c, rec)
  -- Nobody hears of the creation after this.
  take_gap(rec, change.s)
  local still = change.s ~= rec.s
  return { moves = { { c = change.c, rec = rec, was = was, still = still } }, at = change.at, event = change.e }
end

-- The user became a member: c, rec (the record to begin with; r is the message that made it so), at, e.
function changes.join(change)
  local before = get(change.c)
  -- Joined by it already, or left again since.
  if before and (before.f or before.s) >= change.rec.r then return applied(change.c) end
  local rec, was = change.rec, standing(change.c, before)
  if before then
    for field in string.gmatch(SETTINGS, '%S+') do rec[field] = before[field] end
    rec.w = math.max(rec.w, before.w)
  end
  return { moves = { { c = change.c, rec = rec, was = was, fresh = before == nil } }, at = change.at, event = change.e }
end

-- The user is no member any more: c, f (last readable seq), at, e. Done before, or since when they joined again: nothing.
function changes.leave(change)
  local rec = get(change.c)
  if rec == nil then return UNKNOWN end
  if rec.f or rec.r > change.f then return applied(change.c) end
  -- Its row was read before they left, and the conversation's head after what came then: that is not theirs.
  if rec.s > change.f then return UNKNOWN end
  local was = standing(change.c, rec)
  rec.f = change.f
  return { moves = { { c = change.c, rec = rec, was = was } }, at = change.at, event = change.e }
end

-- A group that the user is or was in has ended: c, at, e.
function changes.dissolve(change)
  local rec = get(change.c)
  if rec == nil then return UNKNOWN end
  if rec.dd then return applied(change.c) end
  local was = standing(change.c, rec)
  rec.dd = 1
  return { moves = { { c = change.c, rec = rec, was = was } }, at = change.at, event = change.e }
end

-- MongoDB may hold more than this state: c, a session (absent: none) that it has if not.
function changes.invalidate(change)
  if change.c and get(change.c) then return applied(change.c) end
  return UNKNOWN
end

-- Applies one change to a loaded state. The answer: status (ok, applied, cold), tick, tick before, total, old read seq, old
-- unread, then conversation and record in turn.
local function apply(kind, text)
  local done
  if messages[kind] then
    done = messages[kind](text)
  elseif changes[kind] then
    done = changes[kind](cjson.decode(text))
  else
    -- A server of another version left it to a load.
    done = UNKNOWN
  end
  if done.refusal == 'unknown' then
    -- MongoDB holds a session that this state does not know: it is not to be trusted any further.
    forget()
    return { 'cold' }
  end
  if done.refusal then
    local clock = redis.call('HGET', META, 'clock')
    local answer = { 'applied', clock, clock, total(), -1, 0 }
    for _, conversation in ipairs(done.conversations) do
      answer[#answer + 1] = conversation
      answer[#answer + 1] = redis.call('HGET', SESSIONS, conversation) or ''
    end
    return answer
  end
  local tick, previous, changed = record_event(done.moves, done.at, done.event)
  local old = done.old or { r = -1, unread = 0 }
  return { 'ok', int(tick), int(previous), total(), old.r, old.unread, unpack(changed) }
end
