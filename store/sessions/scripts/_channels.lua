-- Functions on a user's sessions in channels. They are a part of the cached state that is loaded when it is first
-- needed: what concerns no channel costs the same however many channels a user has sessions in.
--
--   channels          hash: channel -> record (JSON)
--   channel_index     sorted set: channel by active_ts
--   channel_list      sorted set by name alone, "<list>\n<position>\n<channel>" (_lists.lua)
--   channel_ticks     hash: channel -> tick of its newest change that was made while this part was not loaded
--   channels_loading  hash of the running load: token, epoch (of the state), pending (number of changes in that list)
--   channels_pending  list of changes that were made during a load: tick and change in turn
--
-- While this part is loaded, `meta` has channels and channels_listed: the numbers of members of channels and
-- channel_list. Mutes are in the key `mutes`. `meta` also has channel_mutes if the mute of a session in a channel may
-- end by itself: then the part is loaded when the user is connected (attach.lua), so that the end is known.

local CHANNEL_PARTS = { 'channels', 'channel_index', 'channel_list' }

local function is_channel(conversation)
  return string.sub(conversation, 1, 2) == 'c_'
end

-- Returns the name of the key that has the record of a session.
local function records_key(conversation)
  return is_channel(conversation) and TAG .. 'channels' or SESSIONS
end

-- Returns whether the sessions in channels are loaded. Drops the state if a key of them was evicted. Call
-- `current_epoch` before.
-- Returns nil if the state was dropped.
local function find_channels()
  local counts = redis.call('HMGET', META, 'channels', 'channels_listed')
  local stored, listed = tonumber(counts[1]), tonumber(counts[2])
  if not stored then return false end
  if redis.call('HLEN', TAG .. 'channels') == stored and redis.call('ZCARD', TAG .. 'channel_index') == stored
    and redis.call('ZCARD', TAG .. 'channel_list') == listed then
    return true
  end
  drop_state()
  return nil
end

-- Removes what is loaded of the sessions in channels, so that they are loaded again.
local function drop_channels()
  for _, name in ipairs(CHANNEL_PARTS) do redis.call('DEL', TAG .. name) end
  redis.call('HDEL', META, 'channels', 'channels_listed')
end

-- Makes a running load of sessions in channels begin again.
local function restart_channel_load()
  redis.call('DEL', TAG .. 'channels_loading', TAG .. 'channels_pending')
end

-- Notes a change that is not applied, because the sessions in channels are not loaded. A load that is running applies
-- it at its end. tick, text: as text.
local function note_channel_change(channel, tick, text)
  redis.call('HSET', TAG .. 'channel_ticks', channel, tick)
  redis.call('PEXPIRE', TAG .. 'channel_ticks', IDLE_MS)
  local fields = cjson.decode(text).f
  if fields and fields[MUTED_UNTIL_MS] then redis.call('HSET', META, 'channel_mutes', 1) end
  if redis.call('HEXISTS', TAG .. 'channels_loading', 'token') == 0 then return end
  redis.call('RPUSH', TAG .. 'channels_pending', tick, text)
  redis.call('PEXPIRE', TAG .. 'channels_pending', PENDING_MS)
  redis.call('HINCRBY', TAG .. 'channels_loading', 'pending', 1)
end

-- Appends to an answer the number of channels with unread mentions that are not muted, then the number of mentions and
-- the channel in turn. The user may not see all of these channels.
local function add_mentions(answer)
  local first, last = '[' .. MENTIONED .. '\n', '(' .. MENTIONED .. '\n~'
  local entries = redis.call('ZRANGEBYLEX', TAG .. 'channel_list', first, last)
  answer[#answer + 1] = #entries
  for _, entry in ipairs(entries) do
    local count, channel = string.match(entry, '^[^\n]*\n(%d+)\n(.*)$')
    answer[#answer + 1], answer[#answer + 2] = tonumber(count), channel
  end
end
