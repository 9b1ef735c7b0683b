-- The beginning of `apply`. Most messages are for users whose state is not cached and who have no connection; for them
-- the script ends here. For all others it sets `message_meta`: the fields of the key `meta` that the fast path needs.
local message_meta
if ARGV[2] == '' and (ARGV[3] == 'message' or ARGV[3] == 'own') then
  message_meta = redis.call(
    'HMGET', KEYS[1], 'epoch', 'clock', 'total', 'listed', 'timed', 'due', 'held', 'routes', 'touched')
  if not message_meta[1] then
    local tag = string.sub(KEYS[1], 1, -5)
    if redis.call('EXISTS', tag .. 'loading', tag .. 'routes') == 0 then return { 'not_cached' } end
  end
end
