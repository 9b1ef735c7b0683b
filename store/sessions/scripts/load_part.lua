-- Stores a part of a user's state that was read from MongoDB. It is not visible before load_finish.
-- ARGV: now (ms), token of the loader, time that the claim lasts from now on (ms), conversation and record in turn.
-- Returns 1, or 0 if the claim was lost: load again.
local token, claim_ms, first_session = ARGV[2], ARGV[3], 4
if redis.call('HGET', LOADING, 'token') ~= token then return 0 end
redis.call('PEXPIRE', LOADING, claim_ms)
for i = first_session, #ARGV, 2 do
  local conversation, record = ARGV[i], cjson.decode(ARGV[i + 1])
  put(conversation, record, contribution(conversation, nil), true)
end
touch()
return 1
