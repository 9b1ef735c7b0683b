-- Lets a user join a voice channel with a device, and leave another one of the workspace.
-- ARGV: now (ms), workspace, user, channel, policy version under which rights were judged, server and device of the
-- connection, the user's own flags and those that follow from rights, largest number of users in the channel.
-- Returns { 'outdated', present policy version or '' }, { 'full' }, or the answer of `replace_state`.
local user, channel, version, server, device = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local flags, limit = tonumber(ARGV[8]), ARGV[9]

if not is_judged(version) then return { 'outdated', redis.call('HGET', META, 'pv') or '' } end
local before = find_state(user)
local joined = int(NOW)
if before and before.channel == channel and before.device == device then
  joined = before.joined
  flags = bit.bor(flags, bit.band(before.flags, VOICE_PICTURES))
else
  if not (before and before.channel == channel) and is_full(channel, limit) then return { 'full' } end
  -- The earlier device sees by the time that it is not its own state.
  if before then joined = int(math.max(NOW, tonumber(before.joined) + 1)) end
end
local moderated = before and bit.band(before.flags, VOICE_MODERATED) or take_moderated(user)
if bit.band(flags, VOICE_MAY_SHOW) == 0 then flags = bit.band(flags, bit.bnot(VOICE_PICTURES)) end
return replace_state(user, before, {
  channel = channel,
  version = before and before.version or '0',
  joined = joined,
  gone = '0',
  flags = bit.bor(flags, moderated),
  server = server,
  device = device,
})
