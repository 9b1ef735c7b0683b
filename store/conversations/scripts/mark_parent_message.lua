-- Makes readers see that there is a thread under a message, as MongoDB has it already. May be repeated.
-- ARGV: seq of the parent message.
-- Returns 1, or 0 if the head is not cached.
local seq = tonumber(ARGV[1])

local head = redis.call('HMGET', HEAD, HEAD_SEQ, HEAD_NEWEST_SEQ, HEAD_NEWEST)
if not head[1] then
  -- The server that loads it may have read MongoDB before the message was marked: it has to read again.
  redis.call('DEL', LOADING)
  return 0
end
change_contents_version()
local newest_seq, newest = tonumber(head[2]), head[3]
if newest_seq == seq and newest and not cjson.decode(newest)[MESSAGE_HAS_THREAD] then
  redis.call('HSET', HEAD, HEAD_NEWEST, with_thread(newest))
end
return 1
