-- Makes a user's state seen whose parts are stored, then applies what happened to it meanwhile.
-- ARGV: now (ms), token, epoch, clock (ms), how many sessions there must be, then subBizs in use.
-- Answers {conversation, activeTs, writeTs (0 of a gateway), ...} for what that moved, or 0 where the claim or a key was lost (what was read may be
-- stale: load again).
local loading = redis.call('HMGET', LOADING, 'token', 'pending')
if loading[1] ~= ARGV[2] then return 0 end
redis.call('DEL', LOADING)
for i = 6, #ARGV do put_gateway(ARGV[i], 0) end
for _, field in ipairs({ 'count', 'listed', 'timed', 'total' }) do redis.call('HINCRBY', META, field, 0) end
redis.call('HSET', META, 'epoch', ARGV[3], 'clock', ARGV[4])
copy_routes()
local held = redis.call('GET', LOCK)
if held and string.find(held, ':', 1, true) then redis.call('HSET', META, 'held', held) end
local pending = redis.call('LRANGE', PENDING, 0, -1)
redis.call('DEL', PENDING)
if tonumber(redis.call('HGET', META, 'count')) ~= tonumber(ARGV[5]) or #pending ~= (tonumber(loading[2]) or 0) then
  forget()
  return 0
end
if not loaded() then return 0 end
local moved = {}
for i = 1, #pending, 2 do
  local outcome = apply(pending[i], pending[i + 1])
  if outcome[1] == 'cold' then return 0 end
  for j = 7, outcome[1] == 'ok' and #outcome or 0, 2 do
    local conversation = outcome[j]
    moved[#moved + 1] = conversation
    moved[#moved + 1] = redis.call('ZSCORE', INDEX, conversation)
    moved[#moved + 1] = is_gateway(conversation) and 0 or get(conversation).w
  end
end
touch()
return moved
