-- Functions on one user's keys: whether the state is cached, time to live, routes, log, lock. KEYS[1] is the key
-- `meta`. The names of the others have the same prefix, so they are in the same slot; passing all of them with every
-- call would take longer than the call itself. A script on many users selects one after the other. ARGV[1] is always
-- the current time, ms.
--
--   meta      hash: epoch (of this cached state; absent: not cached), clock, total (unread messages), mentions (unread
--             mentions; absent: 0), threads (unread threads; absent: 0), held (token of the lock's holder), due (end of
--             the next mute, ms, or ''), touched (when all keys got time to live, ms), records, listed, timed (number
--             of members of sessions, list and mutes), servers (copy of the key routes: "<until ms> <server>",
--             separated by spaces), sums by list: n<list> valid sessions, u<list> unread messages, q<list> unread
--             mentions, t<list> unread threads; and messages that are in the log and not yet in the sessions
--             (_append.lua): waiting (number of conversations) and w:<conversation>
--   sessions  hash: conversation -> record (JSON), without channels (_channels.lua). Its fields:
--             store/sessions/fields.py
--   index     sorted set: conversation by active_ts
--   list      sorted set by name alone, "<list>\n<position>\n<conversation>": one key holds every list (_lists.lua)
--   mutes     sorted set: conversation by the end of its mute, ms
--   log       stream of events: p (tick of the event before), e (log entry); the id is "<tick>-0"
--   routes    sorted set: server that holds connections of the user, by the time until which that is known, ms
--   loading   hash of the running load: token, pending (number of members of that list)
--   pending   list of changes that were made during a load: kind and change in turn
--   lock      string: token of the holder, "<owner>:<fence>"; only "<owner>" until the next in the queue takes it
--   fence     string: the last fence
--   queue     list of waiters, "<server> <owner>", oldest first
local TAG, META, SESSIONS, INDEX, LIST, MUTES, LOG, ROUTES, PENDING, LOADING, LOCK, FENCE, QUEUE
local NOW = tonumber(ARGV[1])

local GRANT_MS = 1500 -- time in which the next in the queue has to take the lock

-- Between the prefix and the tag is the generation (store/redis/keys.py). Names of channels don't have it.
local PREFIX = string.match(KEYS[1], '^[^/{]*')

-- state: fields of `meta` as check_state has read them, with the changes made since; nil if it was not called. And what
-- `fold` has changed and is not stored yet: folded (conversation -> { record, old }), gateway_ticks (by subBiz), and
-- waiting_fields (the fields of `meta` to remove).
-- key_created: true once a key was created, which needs a time to live. touched: the time at which all keys got theirs,
-- if it is known.
local state, key_created, touched

-- Selects the user whose keys the functions below use. tag: what the names of the keys begin with.
local function select_user(tag)
  TAG, META, SESSIONS, INDEX, LIST = tag, tag .. 'meta', tag .. 'sessions', tag .. 'index', tag .. 'list'
  MUTES, LOG, ROUTES, PENDING = tag .. 'mutes', tag .. 'log', tag .. 'routes', tag .. 'pending'
  LOADING, LOCK, FENCE, QUEUE = tag .. 'loading', tag .. 'lock', tag .. 'fence', tag .. 'queue'
  state, key_created, touched = nil, false, nil
end

select_user(string.sub(KEYS[1], 1, -5))

local function int(number)
  return string.format('%.0f', number)
end

-- Renews the time to live of all keys, if that was long ago or one of them is new.
local function touch()
  if not key_created and touched and math.abs(NOW - touched) <= TOUCH_INTERVAL_MS then return end
  for _, key in ipairs({ META, SESSIONS, INDEX, LIST, MUTES, LOG, ROUTES }) do redis.call('PEXPIRE', key, IDLE_MS) end
  for _, name in ipairs({ 'channels', 'channel_index', 'channel_list', 'channel_ticks' }) do
    redis.call('PEXPIRE', TAG .. name, IDLE_MS)
  end
  redis.call('HSET', META, 'touched', int(NOW))
end

-- Returns the servers that hold connections of the user. A cached state has a copy, so that a message needs no other
-- key.
local function list_routes()
  local copy = state and state.routes or redis.call('HGET', META, 'servers')
  if not copy then return redis.call('ZRANGEBYSCORE', ROUTES, int(NOW), '+inf') end
  local servers = {}
  for until_ms, server in string.gmatch(copy, '(%d+) (%S+)') do
    if tonumber(until_ms) >= NOW then servers[#servers + 1] = server end
  end
  return servers
end

-- Adds the routes of the copy to the key, which may have been evicted although its copy was not.
local function restore_routes()
  for until_ms, server in string.gmatch(redis.call('HGET', META, 'servers') or '', '(%d+) (%S+)') do
    redis.call('ZADD', ROUTES, until_ms, server)
  end
end

local function copy_routes()
  redis.call('ZREMRANGEBYSCORE', ROUTES, '-inf', '(' .. int(NOW))
  local rows, parts = redis.call('ZRANGE', ROUTES, 0, -1, 'WITHSCORES'), {}
  for i = 1, #rows, 2 do parts[#parts + 1] = rows[i + 1] .. ' ' .. rows[i] end
  local copy = table.concat(parts, ' ')
  redis.call('HSET', META, 'servers', copy)
  if state then state.routes = copy end
end

local function publish(server, frame)
  redis.call('PUBLISH', PREFIX .. 'server:' .. server, frame)
end

-- Makes the servers that hold connections of the user read the log, or start over if the state is gone.
local function wake_hubs()
  local user = string.gsub(string.match(TAG, '{u:([^}]*)}'), '%%(%x%x)', function(byte)
    return string.char(tonumber(byte, 16))
  end)
  local frame = string.format(WAKE_UP_FRAME, cjson.encode(user))
  for _, server in ipairs(list_routes()) do publish(server, frame) end
end

local function delete_state()
  redis.call('DEL', META, SESSIONS, INDEX, LIST, MUTES, LOG)
  redis.call('DEL', TAG .. 'channels', TAG .. 'channel_index', TAG .. 'channel_list', TAG .. 'channel_ticks')
end

local function drop_state()
  wake_hubs()
  delete_state()
  state, key_created, touched = nil, false, NOW
end

-- Returns whether no key of the cached state was evicted, and no change of it was interrupted: if the lock expired
-- while its holder was making a change, MongoDB may have that change.
-- records, listed, timed (numbers of members), held (token of the lock's holder): the fields of `meta`. A version
-- without threads has another name for `records`: it drops a state of this one, and this one drops its states.
local function is_complete(records, listed, timed, held)
  return redis.call('HLEN', SESSIONS) == tonumber(records)
    and redis.call('ZCARD', INDEX) == tonumber(records)
    and redis.call('ZCARD', LIST) == tonumber(listed)
    and (timed == '0' or redis.call('ZCARD', MUTES) == tonumber(timed))
    and not (held and redis.call('EXISTS', LOCK) == 0)
end

-- Reads the fields of `meta` into `state`. Returns the epoch of the cached state, or nil if it is not cached. Drops a
-- state that is not complete.
local function check_state()
  local meta = redis.call(
    'HMGET', META, 'epoch', 'records', 'listed', 'timed', 'held', 'due', 'touched', 'clock', 'total', 'waiting',
    'servers')
  local epoch, records, listed = meta[1], tonumber(meta[2]), tonumber(meta[3])
  state = nil
  if not epoch then return nil end
  if not is_complete(records, listed, meta[4], meta[5]) then
    drop_state()
    return nil
  end
  touched = tonumber(meta[7])
  state = {
    records = records, listed = listed, due = tonumber(meta[6]), clock = tonumber(meta[8]),
    total = tonumber(meta[9]) or 0, waiting = tonumber(meta[10]) or 0, routes = meta[11],
    folded = {}, gateway_ticks = {},
  }
  return epoch
end

-- Appends an event to the log. Events form a chain: each names the tick before it, so a reader can tell whether one is
-- missing. tick, before (the tick before it): as text.
local function append_log(tick, before, entry)
  local id = tick .. '-0'
  if redis.call('XADD', LOG, 'NOMKSTREAM', 'MAXLEN', '~', LOG_LENGTH, id, 'p', before, 'e', entry) then return end
  redis.call('XADD', LOG, id, 'p', before, 'e', entry)
  key_created = true
end

-- Releases the lock if the token belongs to its holder, and hands it to the next in the queue.
local function release_lock(token)
  if redis.call('GET', LOCK) ~= token then return end
  redis.call('DEL', LOCK)
  redis.call('HDEL', META, 'held')
  local waiter = redis.call('LPOP', QUEUE)
  if not waiter then return end
  local server, owner = string.match(waiter, '^(%S+) (%S+)$')
  redis.call('SET', LOCK, owner, 'PX', GRANT_MS)
  publish(server, string.format(LOCK_GRANTED_FRAME, owner))
end
