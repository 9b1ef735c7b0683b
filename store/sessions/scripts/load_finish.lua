-- Makes a user's state visible after all its parts are stored, and applies the changes that were made during the load.
-- ARGV: now (ms), token of the loader, epoch, clock (ms), number of sessions, number of entries in lists, number of
-- mutes with an end, total of unread messages, end of the next mute (ms) or '', then further sums: fields of meta
-- and their values in turn. If the keys do not have these numbers of members, the state is dropped.
-- Returns { conversation, active_ts, write_ts (0 for a gateway), ... } of the sessions that these changes moved, or 0
-- if the claim or a key was lost: the loaded state may be stale, load again.
local token, epoch, clock, count, listed, timed, total, due = unpack(ARGV, 2, 9)
local first_sum = 10
local loading = redis.call('HMGET', LOADING, 'token', 'pending')
if loading[1] ~= token then return 0 end
redis.call('DEL', LOADING)
redis.call(
  'HSET', META, 'epoch', epoch, 'clock', clock, 'records', count, 'listed', listed, 'timed', timed, 'total', total,
  'due', due)
for i = first_sum, #ARGV, 2 do redis.call('HSET', META, ARGV[i], ARGV[i + 1]) end
copy_routes()
local held = redis.call('GET', LOCK)
if held and string.find(held, ':', 1, true) then redis.call('HSET', META, 'held', held) end
local pending = redis.call('LRANGE', PENDING, 0, -1)
redis.call('DEL', PENDING)
if #pending ~= (tonumber(loading[2]) or 0) then
  drop_state()
  return 0
end
if not current_epoch() then return 0 end
local first_changed = 7 -- in an outcome of `apply`: conversation and record in turn
local moved = {}
for i = 1, #pending, 2 do
  local outcome = apply(pending[i], pending[i + 1])
  if outcome[1] == 'not_cached' then return 0 end
  for j = first_changed, outcome[1] == 'ok' and #outcome or 0, 2 do
    local conversation = outcome[j]
    moved[#moved + 1] = conversation
    moved[#moved + 1] = redis.call('ZSCORE', INDEX, conversation)
    moved[#moved + 1] = is_gateway(conversation) and 0 or get(conversation)[WRITE_TS]
  end
end
touch()
return moved
