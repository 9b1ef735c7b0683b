-- Functions on the lists and sums that are derived from a user's sessions.
--
-- Lists, each newest position first:
--   m, b<subBiz>, c<category>, x<subBiz> <category>  by priority, then write_ts: the lists that clients page through
--   B<subBiz>, C<category>                           by write_ts: to find the newest session
--   o                                                unordered: sessions with messages that are not delivered
--   t<conversation>                                  unordered: all sessions of threads of a conversation
-- The lists of sessions in channels are in the key `channel_list`:
--   f<workspace>  unordered: followed channels, by the workspace's part of their ids
--   q             by number of unread mentions: channels with mentions that are not muted

-- Returns the position of a session in its lists: by priority, then by write_ts.
local function list_position(priority, write_ts)
  return priority * PRIORITY_WEIGHT + write_ts
end

-- Returns the member of the key `list` that stands for a session in one of the lists.
local function list_entry(list, position, conversation)
  return string.format('%s\n%016.0f\n%s', list, position, conversation)
end

local function is_thread(conversation)
  return string.sub(conversation, 1, 2) == 't_'
end

local function is_gateway(conversation)
  return string.sub(conversation, 1, 2) == 'b_'
end

-- Returns whether the session is that of a thread that the user does not follow.
local function is_unfollowed(conversation, record)
  return not record[FOLLOWS] and is_thread(conversation)
end

-- The same rule as Session.valid in session.py: a private conversation exists from its first message on, and a deleted
-- session is valid again after the next countable message.
local function is_valid(conversation, record)
  if is_gateway(conversation) then return (record[VALID_INSIDE] or 0) > 0 end
  if record[HIDDEN] or is_unfollowed(conversation, record) then return false end
  if record[DISSOLVED] or (record[WRITE_SEQ] == 0 and is_private(conversation)) then return false end
  return record[DELETED_N] == nil or record[N] > record[DELETED_N]
end

local function unread_count(conversation, record)
  if is_gateway(conversation) then return record[UNREAD_INSIDE] or 0 end
  if not is_valid(conversation, record) then return 0 end
  return count_unread(record[N], record[READ_N], math.max(record[DELETED_N] or 0, record[FLOOR_N] or 0))
end

-- Returns the unread mentions of a valid session.
local function unread_mention_count(conversation, record)
  if is_gateway(conversation) then return record[MENTIONS_INSIDE] or 0 end
  if not record[MENTIONS] then return 0 end
  local count = 0
  local read_seq = math.max(record[ACKNOWLEDGED_SEQ], record[DELETED_SEQ] or 0, record[FLOOR_SEQ] or 0)
  for _, seq in ipairs(record[MENTIONS]) do
    if seq > read_seq then count = count + 1 end
  end
  return count
end

-- Returns the record of a session, or nil. A record that `fold` has changed has to be stored if it is changed further.
local function get(conversation)
  local folded = state and state.folded[conversation]
  if folded then return folded.record end
  local text = redis.call('HGET', records_key(conversation), conversation)
  if not text then return nil end
  return cjson.decode(text)
end

-- Returns what a session contributes to lists and sums: entries (a set), sums (by field of meta), mute_end (ms, as
-- text). It is computed before and after a change; `put` writes the difference.
local function contribution(conversation, record)
  local result = { entries = {}, sums = {} }
  if record == nil then return result end
  local muted = record[MUTED] == 1
  if muted then result.mute_end = record[MUTED_UNTIL_MS] end
  if is_channel(conversation) then
    -- In no list of sessions. Its mentions are summed when they are read, because the user may not see the channel.
    local mentions = muted and 0 or unread_mention_count(conversation, record)
    if mentions > 0 then result.entries[list_entry(MENTIONED, mentions, conversation)] = true end
    if record[FOLLOWS] then
      local workspace = string.match(conversation, '^c_([^.]*)')
      result.entries[list_entry(FOLLOWED .. workspace, 0, conversation)] = true
    end
    return result
  end
  if is_thread(conversation) then
    local parent = string.match(conversation, '^t_%d+_(.*)$')
    result.entries[list_entry(THREADS_OF .. parent, 0, conversation)] = true
    if not record[FOLLOWS] and not record[HIDDEN] then
      local mentions = muted and 0 or unread_mention_count(conversation, record)
      if mentions > 0 then result.sums.mentions = mentions end
    end
  end
  if not is_valid(conversation, record) then return result end
  local entries, sums, sub_biz, category = result.entries, result.sums, record[SUB_BIZ], record[CATEGORY]
  local position = list_position(record[PRIORITY], record[WRITE_TS])
  local counted = muted and 0 or unread_count(conversation, record)
  local mentions = muted and 0 or unread_mention_count(conversation, record)
  entries[list_entry(sub_biz and 'b' .. sub_biz or 'm', position, conversation)] = true
  -- A session inside a subBiz counts in the totals through its gateway.
  if not sub_biz then
    sums.total = counted
    if mentions > 0 then sums.mentions = mentions end
  end
  if is_gateway(conversation) then
    if not muted then sums.threads = record[THREADS_INSIDE] end
    return result
  end
  if math.max(record[RECEIVED_SEQ], record[DELETED_SEQ] or 0, record[FLOOR_SEQ] or 0) < record[WRITE_SEQ] then
    entries[list_entry('o', 0, conversation)] = true
  end
  local summed_lists = {}
  if sub_biz then
    entries[list_entry('B' .. sub_biz, record[WRITE_TS], conversation)] = true
    summed_lists[1] = 'b' .. sub_biz
    if sub_biz == THREADS and counted > 0 then sums['tb' .. sub_biz] = 1 end
  end
  if category then
    entries[list_entry('c' .. category, position, conversation)] = true
    entries[list_entry('C' .. category, record[WRITE_TS], conversation)] = true
    summed_lists[#summed_lists + 1] = 'c' .. category
    if sub_biz then entries[list_entry('x' .. sub_biz .. ' ' .. category, position, conversation)] = true end
  end
  for _, list in ipairs(summed_lists) do
    sums['n' .. list], sums['u' .. list], sums['q' .. list] = 1, counted, mentions
  end
  return result
end

-- Returns what a session contributes before a change. record: as `get` returned it, and not changed yet.
local function contribution_before(conversation, record)
  local folded = state.folded[conversation]
  return folded and folded.old or contribution(conversation, record)
end
