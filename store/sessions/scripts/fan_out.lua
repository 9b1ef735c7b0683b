-- Applies changes to the cached states of many users; one user's changes in order. In a cluster, all users are on one
-- node as far as the caller knows. An error in one user's state concerns only that user: the state is dropped.
-- KEYS[1]: the key `meta` of one of the users.
-- ARGV: now (ms); number of changes, then kind and text of each (_changes.lua); then groups of users with the same
-- changes, each with the numbers of these, separated by spaces, the number of users, and their encoded ids.
-- Returns a list of server sets (names separated by spaces), then for each user in turn
--   NOT_CACHED  the state is not cached, or a load that is running will apply the changes
--   APPENDED    applied; no server holds connections, and the ticks are the messages' times
--   ELSEWHERE   nothing was done, because the user's slot is not, or not completely, on this node
--   else { epoch, number of a server set, tick before, outcome of each change, ... }: the outcomes of `append` and
--   `apply`. The tick before an appended message is that of the outcome before it; for the first one it is the third
--   element.
local number_of_changes, first_change = tonumber(ARGV[2]), 3
local changes, set_names, set_numbers = {}, {}, {}
local NAMES = string.match(KEYS[1], '^.-{u:')
local apply_all -- created when it is first needed: most calls only append

local MESSAGE_KINDS = { message = true, own = true, mention = true }

-- Returns a change as a table: kind, text; for EventOnly event (the decoded text); and for messages conversation, seq,
-- n, at (commit timestamp, ms), written_ms (the same; 0 if the message is not countable), entry, and the numbers as
-- text.
local function read_change(kind, text)
  if kind == 'event' then return { kind = kind, text = text, event = cjson.decode(text) } end
  if not MESSAGE_KINDS[kind] then return { kind = kind, text = text } end
  local conversation, seq, n, countable, at, entry = string.match(text, MESSAGE_PATTERN)
  return {
    kind = kind, text = text, conversation = conversation, entry = entry, seq = tonumber(seq), seq_text = seq,
    n = tonumber(n), n_text = n, at = tonumber(at), at_text = at, written_ms = countable == '1' and tonumber(at) or 0,
  }
end

for i = 1, number_of_changes do
  changes[i] = read_change(ARGV[first_change + 2 * i - 2], ARGV[first_change + 2 * i - 1])
end

-- Divides a group's changes into runs: consecutive messages of a conversation, which are appended together, and single
-- other changes.
local function list_runs(numbers)
  local runs, run = {}, nil
  for number in string.gmatch(numbers, '%d+') do
    local change = changes[tonumber(number)]
    local last = run and run[#run]
    if last and last.conversation == change.conversation and change.seq and last.seq + 1 == change.seq then
      run[#run + 1] = change
    else
      run = { change }
      runs[#runs + 1] = run
    end
    if change.kind == 'own' then run.has_own = true end
  end
  return runs
end

-- Returns the answer for a user whose state was changed.
local function answer_of(outcomes)
  local servers = outcomes.servers
  if servers == '' and not outcomes.differs then return APPENDED end
  if not set_numbers[servers] then
    set_names[#set_names + 1] = servers
    set_numbers[servers] = #set_names - 1
  end
  return { outcomes.epoch, set_numbers[servers], outcomes.previous, unpack(outcomes) }
end

-- Appends a single run, if it has only messages or one event. Returns what `append` returns.
local function append_run(run, outcomes)
  if run[1].event then return append_event(run[1].event, outcomes) end
  return run[1].seq and append(run, outcomes)
end

-- Applies all runs to the selected user's state, appending what can be appended. Returns the answer for the user.
local function apply_runs(runs)
  local outcomes, is_cached = {}, true
  for _, run in ipairs(runs) do
    local status = append_run(run, outcomes)
    if not status then
      local flat = {}
      for _, change in ipairs(run) do flat[#flat + 1], flat[#flat + 2] = change.kind, change.text end
      apply_all = apply_all or general_functions()
      local applied = apply_all(flat, 1)
      status = applied[1] == 'ok' and APPENDED or NOT_CACHED
      if status == APPENDED then
        outcomes.epoch, outcomes.servers, outcomes.differs = applied[2], table.concat(applied[3], ' '), true
        outcomes.previous = outcomes.previous or 0
        for i = 4, #applied do outcomes[#outcomes + 1] = applied[i] end
      end
    end
    is_cached = is_cached and status == APPENDED
  end
  return is_cached and answer_of(outcomes) or NOT_CACHED
end

-- Removes a state in which a key has the wrong type or an unreadable value.
local function drop_damaged_state()
  state = nil
  if not pcall(wake_hubs) then
    redis.call('DEL', META)
    pcall(wake_hubs)
  end
  delete_state()
end

-- Returns the answer for the selected user.
local function serve(runs)
  if #runs == 1 then
    -- On the former node of a slot that is moving, an append fails before its first write.
    local outcomes = {}
    local is_done, status = pcall(append_run, runs[1], outcomes)
    if is_done and status then return status == APPENDED and answer_of(outcomes) or status end
  end
  if not is_whole_slot(META) then return ELSEWHERE end
  local is_done, answer = pcall(apply_runs, runs)
  if is_done then return answer end
  drop_damaged_state()
  return NOT_CACHED
end

-- On the new node of a slot that is moving, a call that was redirected gets no error for keys that have not arrived,
-- and would create them. Only the slot of KEYS[1] is redirected, but then the call may use all slots that move here.
local may_serve = is_whole_slot(KEYS[1])

local answer, position = { set_names }, first_change + 2 * number_of_changes
while position <= #ARGV do
  local runs, users = list_runs(ARGV[position]), tonumber(ARGV[position + 1])
  for i = position + 2, position + 1 + users do
    select_user(NAMES .. ARGV[i] .. '}:')
    answer[#answer + 1] = may_serve and serve(runs) or ELSEWHERE
  end
  position = position + 2 + users
end
return answer
