-- Functions on the voice states of a workspace. Included after `_clock` and `_clock_append`.
-- ARGV[1]: now (ms); ARGV[2]: the workspace.
--
--   voice            hash: id (a new one after the hash was lost), judged (policy version under which all states were
--                    judged), 'u <user>' (the user's state), 'n <channel>' (number of states there), 'r <user>' (of a
--                    state that was written again after a loss: its version before)
--   voice_left       hash: '<channel> <user>': the last state of a user who has left a channel
--   voice_moderated  hash: user: what a moderator has set (flags) for a user who is in no channel
--
-- A state is a text: channel, version, time of joining (ms), time at which the device was last heard from (ms; 0: it is
-- connected), flags (a number, see `voice_state.py`), server, device.
local WORKSPACE = ARGV[2]
local VOICE, LEFT, MODERATED = TAG .. 'voice', TAG .. 'voice_left', TAG .. 'voice_moderated'
local STATE = '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$'

local function parse_state(text)
  if not text then return nil end
  local channel, version, joined, gone, flags, server, device = string.match(text, STATE)
  return {
    channel = channel,
    version = version,
    joined = joined,
    gone = gone,
    flags = tonumber(flags),
    server = server,
    device = device,
  }
end

local function format_state(state)
  local flags = int(state.flags)
  local parts = { state.channel, state.version, state.joined, state.gone, flags, state.server, state.device }
  return table.concat(parts, ' ')
end

local function find_state(user)
  return parse_state(redis.call('HGET', VOICE, 'u ' .. user))
end

local function copy_state(state)
  local copy = {}
  for name, value in pairs(state) do copy[name] = value end
  return copy
end

-- Returns whether a channel has no place for another user. limit: users of a channel.
local function is_full(channel, limit)
  return (tonumber(redis.call('HGET', VOICE, 'n ' .. channel)) or 0) >= tonumber(limit)
end

-- Returns whether rights were judged under the present policy version. A change of rights raises it before the change
-- is answered.
local function is_judged(version)
  local raised = redis.call('HGET', META, 'pv')
  return raised and tonumber(raised) <= tonumber(version)
end

-- Returns the flags that a moderator has set for a user who joins, and forgets them.
local function take_moderated(user)
  local flags = redis.call('HGET', MODERATED, user)
  redis.call('HDEL', MODERATED, user)
  return tonumber(flags or 0)
end

local function count(channel, number)
  if redis.call('HINCRBY', VOICE, 'n ' .. channel, number) <= 0 then redis.call('HDEL', VOICE, 'n ' .. channel) end
end

-- Keeps the last state of a user who leaves a channel, for clients that were away. Without it they start over.
local function keep_left(user, before)
  if redis.call('HLEN', LEFT) >= VOICE_MOST_LEFT then redis.call('DEL', LEFT) end
  redis.call('HSET', LEFT, before.channel .. ' ' .. user, format_state(before))
  redis.call('PEXPIRE', LEFT, CLOCK_IDLE_MS)
end

local function write_state(user, before, after)
  if redis.call('HEXISTS', VOICE, 'id') == 0 then
    local time = redis.call('TIME')
    redis.call('HSET', VOICE, 'id', time[1] .. '.' .. time[2])
  end
  redis.call('HDEL', VOICE, 'r ' .. user)
  if after then
    redis.call('HSET', VOICE, 'u ' .. user, format_state(after))
  else
    redis.call('HDEL', VOICE, 'u ' .. user)
    local moderated = bit.band(before.flags, VOICE_MODERATED)
    if moderated ~= 0 then
      redis.call('HSET', MODERATED, user, moderated)
      redis.call('PEXPIRE', MODERATED, CLOCK_IDLE_MS)
    end
  end
  local left, joined = before and before.channel, after and after.channel
  if left ~= joined then
    if left then
      count(left, -1)
      keep_left(user, before)
    end
    if joined then
      count(joined, 1)
      redis.call('HDEL', LEFT, joined .. ' ' .. user)
    end
  end
  redis.call('PEXPIRE', VOICE, CLOCK_IDLE_MS)
end

local function looks_same(before, after)
  return before.channel == after.channel
    and before.joined == after.joined
    and bit.band(before.flags, VOICE_SHOWN) == bit.band(after.flags, VOICE_SHOWN)
end

-- Replaces the state of a user. before: as it is, nil: none; after: nil to end it. If others see a difference, it
-- appends VoiceStateChanged to the clock of the workspace. At least one of the states must be given.
-- Returns { 'changed', id of the hash, state or '', state before or '', epoch, tick (0: no event), tick before, policy
-- version, server that looks at the clock, ... }.
local function replace_state(user, before, after)
  local routes = list_routes()
  local epoch, clock = open_clock()
  local version, tick = newest_version(''), '0'
  if not (before and after and looks_same(before, after)) then
    local entry, objects = { k = 'V', w = WORKSPACE, u = user }, {}
    if after then
      after.version = int(next_tick(clock))
      entry.s = format_state(after)
      objects = { 'changed', VOICE_OBJECT .. after.channel .. ' ' .. user }
    else
      entry.s, entry.l = format_state(before), 1
    end
    if before and not (after and after.channel == before.channel) then
      if after then entry.b = format_state(before) end
      objects[#objects + 1] = 'changed'
      objects[#objects + 1] = VOICE_OBJECT .. before.channel .. ' ' .. user
    end
    tick = append_entry(clock, cjson.encode(entry), version, '', objects, 1)
  end
  write_state(user, before, after)
  local text, earlier = after and format_state(after) or '', before and format_state(before) or ''
  local id = redis.call('HGET', VOICE, 'id')
  return { 'changed', id, text, earlier, epoch, tick, int(clock), version, unpack(routes) }
end
