-- Stores a part of a user's state as read from MongoDB. Nobody sees it before load_finish.
-- ARGV: now (ms), token, milliseconds the claim lasts from here on, then conversation and record in turn.
-- Answers 1, or 0 where the claim was lost (load again).
if redis.call('HGET', LOADING, 'token') ~= ARGV[2] then return 0 end
redis.call('PEXPIRE', LOADING, ARGV[3])
for i = 4, #ARGV, 2 do put(ARGV[i], cjson.decode(ARGV[i + 1]), standing(ARGV[i], nil), true) end
touch()
return 1
