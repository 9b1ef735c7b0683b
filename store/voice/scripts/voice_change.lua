-- Changes or ends the state of a user who is in voice.
-- ARGV: now (ms), workspace, user; then conditions, each '' if there is none: the device, the channel, the whole state,
-- policy version under which rights were judged; then flags to set, flags to clear, another channel ('' to stay, '-' to
-- end the state), and the largest number of users there.
-- Returns { 'outdated', present policy version or '' }, { 'full' }, { 'none' } if there is no such state, or the answer
-- of `replace_state`.
local user, device, channel, expected, version = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local set, clear, target, limit = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10], ARGV[11]

if version ~= '' and not is_judged(version) then return { 'outdated', redis.call('HGET', META, 'pv') or '' } end
local before = find_state(user)
if not before then return { 'none' } end
if device ~= '' and before.device ~= device then return { 'none' } end
if channel ~= '' and before.channel ~= channel then return { 'none' } end
if expected ~= '' and format_state(before) ~= expected then return { 'none' } end
if target == '-' then return replace_state(user, before, nil) end
local after = copy_state(before)
if target ~= '' and target ~= before.channel then
  if is_full(target, limit) then return { 'full' } end
  after.channel = target
  after.joined = int(math.max(NOW, tonumber(before.joined) + 1))
  after.flags = bit.band(after.flags, bit.bnot(VOICE_PICTURES))
end
after.flags = bit.bor(bit.band(after.flags, bit.bnot(clear)), set)
if bit.band(after.flags, VOICE_MAY_SHOW) == 0 then after.flags = bit.band(after.flags, bit.bnot(VOICE_PICTURES)) end
return replace_state(user, before, after)
