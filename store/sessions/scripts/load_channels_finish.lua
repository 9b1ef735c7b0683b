-- Makes a user's sessions in channels visible after all parts are stored, and applies the changes that were made since
-- the state was loaded.
-- ARGV: now (ms), token of the loader, number of sessions, number of entries in lists, then the ends of mutes (ms) and
-- their channels in turn.
-- Returns 1, or 0 if the claim or a key was lost, or the state was loaded again: load again.
local token, count, listed, first_mute = ARGV[2], ARGV[3], ARGV[4], 5
local loading, waiting = TAG .. 'channels_loading', TAG .. 'channels_pending'
local claim = redis.call('HMGET', loading, 'token', 'epoch', 'pending')
if claim[1] ~= token then return 0 end
local pending = redis.call('LRANGE', waiting, 0, -1)
redis.call('DEL', loading, waiting)
local epoch = current_epoch()
if epoch ~= claim[2] or #pending ~= 2 * (tonumber(claim[3]) or 0) then
  drop_channels()
  return 0
end
redis.call('HSET', META, 'channels', count, 'channels_listed', listed)
if not find_channels() then return 0 end
for i = first_mute, #ARGV, 2 do move_mute_end(ARGV[i + 1], ARGV[i]) end
for i = 1, #pending, 2 do
  local decision = changes.channel(cjson.decode(pending[i + 1]))
  local move = decision.moves and decision.moves[1]
  if move then
    move.record[ACTIVE_TS] = math.max(move.record[ACTIVE_TS], tonumber(pending[i]))
    store({ [move.conversation] = move })
  end
end
local ticks = redis.call('HGETALL', TAG .. 'channel_ticks')
redis.call('DEL', TAG .. 'channel_ticks')
for i = 1, #ticks, 2 do
  local record = get(ticks[i])
  if record and record[ACTIVE_TS] < tonumber(ticks[i + 1]) then
    local old = contribution(ticks[i], record)
    record[ACTIVE_TS] = tonumber(ticks[i + 1])
    put(ticks[i], record, old, false)
  end
end
-- A server with a clock that is ahead may have written these rows. The next change takes a later tick than theirs.
local newest = redis.call('ZRANGE', TAG .. 'channel_index', -1, -1, 'WITHSCORES')
local tick = tonumber(newest[2] or 0)
if tick > state.clock then
  append_log(int(tick), int(state.clock), string.format(MEMBERSHIP_ENTRY, cjson.encode({ newest[1] })))
  redis.call('HSET', META, 'clock', int(tick))
  state.clock = tick
  wake_hubs()
end
key_created = true
touch()
return 1
