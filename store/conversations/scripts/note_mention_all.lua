-- Notes in the head of a channel that a message mentions everybody. Does nothing if the head is not cached, or has it.
-- KEYS: the head. ARGV: seq.
local HEAD, seq = KEYS[1], tonumber(ARGV[1])

if redis.call('EXISTS', HEAD) == 0 then return end
local seqs, position = cjson.decode(redis.call('HGET', HEAD, HEAD_MENTIONS_ALL) or '[]'), 1
while seqs[position] and seqs[position] < seq do position = position + 1 end
if seqs[position] == seq then return end
table.insert(seqs, position, seq)
if #seqs > MAX_MENTIONS_ALL then table.remove(seqs, 1) end
redis.call('HSET', HEAD, HEAD_MENTIONS_ALL, cjson.encode(seqs))
