-- Stores a part of a user's state that was read from MongoDB. It is not visible before load_finish, or
-- load_channels_finish.
-- ARGV: now (ms), key of the load (loading or channels_loading), token of the loader, time that the claim lasts from
-- now on (ms), then for each key its name, the number of words, and the words: the arguments of HSET or ZADD.
-- Returns 1, or 0 if the claim was lost: load again.
local loading, token, claim_ms, first_name = TAG .. ARGV[2], ARGV[3], ARGV[4], 5
if redis.call('HGET', loading, 'token') ~= token then return 0 end
redis.call('PEXPIRE', loading, claim_ms)
local i = first_name
while i <= #ARGV do
  local name, first, last = ARGV[i], i + 2, i + 1 + tonumber(ARGV[i + 1])
  if first <= last then
    local command = (name == 'sessions' or name == 'channels') and 'HSET' or 'ZADD'
    redis.call(command, TAG .. name, unpack(ARGV, first, last))
    redis.call('PEXPIRE', TAG .. name, IDLE_MS)
  end
  i = last + 1
end
return 1
