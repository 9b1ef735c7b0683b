-- Raises the floor of a conversation, after it was raised in MongoDB. A head that is being loaded is read from MongoDB
-- again.
-- ARGV: seq and n of the floor, number of changes of the pins so far, number of pinned messages after them.
-- Returns 1, or 0 if the head is not cached.
local seq, n, pin_version, pin_count = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

redis.call('DEL', LOADING)
local head = redis.call(
  'HMGET', HEAD, HEAD_SEQ, HEAD_FLOOR_SEQ, HEAD_PIN_VERSION, HEAD_PIN_COUNT, HEAD_NEWEST_SEQ, HEAD_MENTIONS_ALL)
if not head[1] then return 0 end
if tonumber(seq) > (tonumber(head[2]) or 0) then
  redis.call('HSET', HEAD, HEAD_FLOOR_SEQ, seq, HEAD_FLOOR_N, n)
  if tonumber(head[5]) <= tonumber(seq) then
    redis.call('HSET', HEAD, HEAD_NEWEST_SEQ, seq)
    redis.call('HDEL', HEAD, HEAD_NEWEST)
  end
  local mentions = {}
  for _, mention in ipairs(cjson.decode(head[6] or '[]')) do
    if mention > tonumber(seq) then mentions[#mentions + 1] = mention end
  end
  -- Lua's JSON can't tell an empty list from an empty object.
  if #mentions > 0 then
    redis.call('HSET', HEAD, HEAD_MENTIONS_ALL, cjson.encode(mentions))
  else
    redis.call('HDEL', HEAD, HEAD_MENTIONS_ALL)
  end
  -- Servers keep messages of channels, and those that they reply to.
  change_contents_version()
end
if head[4] and pin_version > (tonumber(head[3]) or 0) then
  redis.call('HSET', HEAD, HEAD_PIN_VERSION, ARGV[3], HEAD_PIN_COUNT, pin_count)
end
return 1
