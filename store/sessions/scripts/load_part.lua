-- Stores a part of a user's state that was read from MongoDB. It is not visible before load_finish.
-- ARGV: now (ms), token of the loader, time that the claim lasts from now on (ms), then for each key (sessions, index,
-- list, mutes) its name, the number of words, and the words: the arguments of HSET or ZADD.
-- Returns 1, or 0 if the claim was lost: load again.
local token, claim_ms, first_name = ARGV[2], ARGV[3], 4
if redis.call('HGET', LOADING, 'token') ~= token then return 0 end
redis.call('PEXPIRE', LOADING, claim_ms)
local commands = { sessions = 'HSET', index = 'ZADD', list = 'ZADD', mutes = 'ZADD' }
local i = first_name
while i <= #ARGV do
  local name, first, last = ARGV[i], i + 2, i + 1 + tonumber(ARGV[i + 1])
  if first <= last then
    redis.call(commands[name], TAG .. name, unpack(ARGV, first, last))
    redis.call('PEXPIRE', TAG .. name, IDLE_MS)
  end
  i = last + 1
end
return 1
