-- Sets the number of pinned messages in the head of a channel, unless the head has that of a later change.
-- ARGV: number of changes of the pins so far, number of pinned messages after them.
-- Returns 1, or 0 if the head is not cached.
local version, count = tonumber(ARGV[1]), ARGV[2]

if redis.call('HEXISTS', HEAD, HEAD_SEQ) == 0 then
  -- The server that loads it may have read MongoDB before the change: it has to read again.
  redis.call('DEL', LOADING)
  return 0
end
local head = redis.call('HMGET', HEAD, HEAD_PIN_VERSION, HEAD_PIN_COUNT)
if not head[2] or version > tonumber(head[1]) then
  redis.call('HSET', HEAD, HEAD_PIN_VERSION, ARGV[1], HEAD_PIN_COUNT, count)
end
touch()
return 1
