-- Changes of a user's cached sessions that follow from memberships of groups and threads, and what the decisions of all
-- kinds of changes share: see _changes.lua. All changes take a table with at (time, ms) and e (log entry); c is the
-- conversation.
local UNKNOWN, MAX_HIDDEN_AT_ONCE = { unknown = true }, 200

local function unchanged(...)
  return { unchanged = { ... } }
end

local function changed_one(change, move, old)
  return { moves = { move }, at = change.at, entry = change.e, old = old }
end

-- Returns true if the log has the entry, at or after a time (ms). Used only if a change may have been made before.
local function is_logged(entry, first_ms)
  for _, row in ipairs(redis.call('XRANGE', LOG, first_ms, '+')) do
    if row[2][4] == entry then return true end
  end
  return false
end

local changes = {}

-- Hides the session of a thread whose parent conversation the user can't see any more. It keeps the place that devices
-- know, and gets no further messages. `hide` in store/sessions/records.py does the same after a load.
local function hide(record)
  record[WRITE_SEQ] = math.max(record[WRITE_SEQ], record[ACKNOWLEDGED_SEQ], record[RECEIVED_SEQ])
  record[N] = math.max(record[N], record[READ_N])
  record[HIDDEN], record[LAST_READABLE_SEQ] = 1, record[WRITE_SEQ]
  record[MENTIONS], record[GAPS] = nil, nil
end

-- Makes the session of a followed thread that of a user who no longer follows it. The read position stays.
local function stop_following(record)
  record[FOLLOWS], record[SUB_BIZ], record[WRITE_SEQ], record[N], record[WRITE_TS] = nil, nil, 0, 0, 0
  record[MENTIONS], record[GAPS] = nil, nil
end

-- Returns the sessions of threads of a conversation. parent: its id and a line feed, or the beginning of several ids.
local function threads_of(parent)
  local list, threads = THREADS_OF .. parent, {}
  for i, entry in ipairs(redis.call('ZRANGEBYLEX', LIST, '[' .. list, '(' .. list .. '~')) do
    threads[i] = string.match(entry, '^[^\n]*\n%d+\n(.*)$')
  end
  return threads
end

-- Returns whether some conversations have too many threads to hide in one script: then the state is loaded again.
local function have_many_threads(parents)
  local count, list = 0, THREADS_OF
  for _, parent in ipairs(parents) do
    count = count + redis.call('ZLEXCOUNT', LIST, '[' .. list .. parent .. '\n', '(' .. list .. parent .. '\n~')
  end
  return count > MAX_HIDDEN_AT_ONCE
end

-- Hides the threads of conversations that are not hidden yet. Returns the moves for store_event, and the threads.
local function hide_all(parents)
  local moves, hidden = {}, {}
  for _, parent in ipairs(parents) do
    for _, thread in ipairs(threads_of(parent .. '\n')) do
      local record = get(thread)
      if not record[HIDDEN] then
        local old = contribution_before(thread, record)
        hide(record)
        hidden[#hidden + 1] = thread
        moves[#moves + 1] = { conversation = thread, record = record, old = old }
      end
    end
  end
  return moves, hidden
end

-- Hides the threads of a conversation, as an event of its own before the one of the change that causes it. So hubs
-- find that an event is missing, and read it. Call it before a record of the change is read.
local function hide_threads(parent, at)
  local moves, hidden = hide_all({ parent })
  if #moves == 0 then return end
  store_event(moves, at, string.format(MEMBERSHIP_ENTRY, cjson.encode(hidden)))
  wake_hubs()
end

-- Returns whether one of some threads is hidden. parent: see threads_of.
local function has_hidden(parent)
  for _, thread in ipairs(threads_of(parent)) do
    if get(thread)[HIDDEN] then return true end
  end
  return false
end

-- Join. rec (the first record; its read position is the message that made the user a member).
function changes.join(change)
  local conversation, record = change.c, change.rec
  local previous = get(conversation)
  -- Joined by this message already, or left again since.
  if previous and (previous[LAST_READABLE_SEQ] or previous[WRITE_SEQ]) >= record[ACKNOWLEDGED_SEQ] then
    return unchanged(conversation)
  end
  -- The threads of the group are visible again. Replies were not applied to them meanwhile.
  if has_hidden(conversation .. '\n') then return UNKNOWN end
  local old = contribution_before(conversation, previous)
  if previous then
    for field in string.gmatch(SETTINGS, '%S+') do record[field] = previous[field] end
    record[WRITE_TS] = math.max(record[WRITE_TS], previous[WRITE_TS])
  end
  return changed_one(change, { conversation = conversation, record = record, old = old, is_new = previous == nil })
end

-- Leave. f (last readable seq). There is nothing to do if the user left before, or has joined again since.
function changes.leave(change)
  local conversation, last_seq = change.c, change.f
  local record = get(conversation)
  if record == nil then return UNKNOWN end
  if record[LAST_READABLE_SEQ] or record[ACKNOWLEDGED_SEQ] > last_seq then return unchanged(conversation) end
  -- The row was loaded before the user left, and the head after later messages, which the user may not read.
  if record[WRITE_SEQ] > last_seq or have_many_threads({ conversation }) then return UNKNOWN end
  hide_threads(conversation, change.at)
  record = get(conversation)
  local move = { conversation = conversation, record = record, old = contribution_before(conversation, record) }
  record[LAST_READABLE_SEQ] = last_seq
  return changed_one(change, move)
end

-- Dissolve.
function changes.dissolve(change)
  local conversation = change.c
  local record = get(conversation)
  if record == nil then return UNKNOWN end
  if record[DISSOLVED] then return unchanged(conversation) end
  if have_many_threads({ conversation }) then return UNKNOWN end
  hide_threads(conversation, change.at)
  record = get(conversation)
  local move = { conversation = conversation, record = record, old = contribution_before(conversation, record) }
  record[DISSOLVED] = 1
  return changed_one(change, move)
end

-- Returns whether the user's session of a thread's group is that of a former member, or the group has ended. A follow
-- that was placed before that may be applied after it. `is_hidden_by` in store/sessions/records.py does the same.
local function is_hidden_by_group(thread)
  local group = string.match(thread, '^t_%d+_(g_.*)$')
  local record = group and get(group)
  return group and (not record or record[LAST_READABLE_SEQ] or record[DISSOLVED])
end

-- FollowThread. v (version), rec (the record to begin with). Changes of whether the user follows have rising versions.
function changes.follow(change)
  local thread, record, previous = change.c, change.rec, get(change.c)
  if previous and (previous[FOLLOW_VERSION] or 0) >= change.v then return unchanged(thread) end
  if previous and previous[HIDDEN] or is_hidden_by_group(thread) then return UNKNOWN end
  local old = contribution_before(thread, previous)
  if previous then
    for field in string.gmatch(SETTINGS, '%S+') do record[field] = previous[field] end
    for _, field in ipairs({ ACKNOWLEDGED_SEQ, READ_N, RECEIVED_SEQ, WRITE_TS }) do
      record[field] = math.max(record[field], previous[field])
    end
    record[MENTIONS] = previous[MENTIONS]
    read_up_to(record, record[ACKNOWLEDGED_SEQ], record[READ_N])
  end
  return changed_one(change, { conversation = thread, record = record, old = old, is_new = previous == nil })
end

-- UnfollowThread. v (version).
function changes.unfollow(change)
  local thread, record = change.c, get(change.c)
  if record == nil then return UNKNOWN end
  if (record[FOLLOW_VERSION] or 0) >= change.v then return unchanged(thread) end
  if record[HIDDEN] then return UNKNOWN end
  local old, sub_biz = contribution_before(thread, record), record[SUB_BIZ]
  stop_following(record)
  record[FOLLOW_VERSION] = change.v
  return changed_one(change, { conversation = thread, record = record, old = old, sub_biz = sub_biz })
end

-- HideThreads. ps (conversations).
function changes.hide(change)
  if have_many_threads(change.ps) then return UNKNOWN end
  local moves, hidden = hide_all(change.ps)
  if #moves == 0 then return unchanged() end
  return { moves = moves, at = change.at, entry = string.format(MEMBERSHIP_ENTRY, cjson.encode(hidden)), wakes = true }
end

-- ShowThreads. ps (conversations), or instead: in (the beginning of their ids). Replies were not applied to hidden
-- threads, so the state is loaded again.
function changes.show(change)
  if change['in'] then return has_hidden(change['in']) and UNKNOWN or unchanged() end
  for _, parent in ipairs(change.ps) do
    if has_hidden(parent .. '\n') then return UNKNOWN end
  end
  return unchanged()
end

-- JudgeThreads. c (group), rs (ranges of seqs that the user may read; one without end has one number).
function changes.judge(change)
  for _, thread in ipairs(threads_of(change.c .. '\n')) do
    if is_hidden_by_group(thread) then return unchanged() end
    local seq, is_readable = tonumber(string.match(thread, '^t_(%d+)_')), false
    for _, range in ipairs(change.rs) do
      is_readable = is_readable or (range[1] <= seq and seq <= (range[2] or seq))
    end
    if is_readable == (get(thread)[HIDDEN] ~= nil) then return UNKNOWN end
  end
  return unchanged()
end

-- A reply that the user gets as a follower, applied after they have stopped following. Their session has no number of
-- replies, so only the log shows whether the reply was applied before.
local function late_reply(conversation, record, old, reply, is_own, mentions_user)
  if is_logged(reply.entry, int(reply.at)) then return unchanged(conversation) end
  local moves_session = is_own or (mentions_user and reply.seq > record[ACKNOWLEDGED_SEQ])
  local read_before = { read_seq = record[ACKNOWLEDGED_SEQ], unread = -1 }
  if is_own then read_up_to(record, reply.seq, reply.n) end
  if mentions_user and reply.seq > record[ACKNOWLEDGED_SEQ] then add_mention(record, reply.seq) end
  local move = { conversation = conversation, record = record, old = old, keeps_tick = not moves_session }
  return { moves = { move }, at = reply.at, entry = reply.entry, old = read_before }
end
