-- Drops a head that contradicts MongoDB; the next writer loads it again. A head past that seq was loaded again
-- already, and is kept.
-- ARGV: seq that another message has in MongoDB.
-- Returns 1.
local taken_seq = tonumber(ARGV[1])

local seq = tonumber(redis.call('HGET', HEAD, HEAD_SEQ))
if seq ~= nil and seq <= taken_seq then redis.call('DEL', HEAD, MEMBERS) end
-- The server that loads it may have read MongoDB before that message was durable: it has to read again.
redis.call('DEL', LOADING)
return 1
