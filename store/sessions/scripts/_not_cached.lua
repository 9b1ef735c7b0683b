-- The beginning of `apply`: most messages are for users whose state is not cached and who have no connection. For them
-- this is the whole script. Otherwise `message_meta` is what the fast path needs of the key `meta`.
local message_meta
if ARGV[2] == '' and (ARGV[3] == 'message' or ARGV[3] == 'own') then
  message_meta = redis.call(
    'HMGET', KEYS[1], 'epoch', 'clock', 'total', 'listed', 'timed', 'due', 'held', 'routes', 'touched')
  if not message_meta[1] then
    local tag = string.sub(KEYS[1], 1, -5)
    if redis.call('EXISTS', tag .. 'loading', tag .. 'routes') == 0 then return { 'cold' } end
  end
end
