-- Makes a user's state visible after all its parts are stored, and applies the changes that were made during the load.
-- ARGV: now (ms), token of the loader, epoch, clock (ms), number of sessions, subBizs that have sessions.
-- Returns { conversation, active_ts, write_ts (0 for a gateway), ... } of the sessions that these changes moved, or 0
-- if the claim or a key was lost: the loaded state may be stale, load again.
local token, epoch, clock, count, first_sub_biz = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), 6
local loading = redis.call('HMGET', LOADING, 'token', 'pending')
if loading[1] ~= token then return 0 end
redis.call('DEL', LOADING)
for i = first_sub_biz, #ARGV do put_gateway(ARGV[i], 0) end
for _, field in ipairs({ 'size', 'listed', 'timed', 'total' }) do redis.call('HINCRBY', META, field, 0) end
redis.call('HSET', META, 'epoch', epoch, 'clock', clock)
copy_routes()
local held = redis.call('GET', LOCK)
if held and string.find(held, ':', 1, true) then redis.call('HSET', META, 'held', held) end
local pending = redis.call('LRANGE', PENDING, 0, -1)
redis.call('DEL', PENDING)
if tonumber(redis.call('HGET', META, 'size')) ~= count or #pending ~= (tonumber(loading[2]) or 0) then
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
