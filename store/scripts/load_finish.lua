-- Stores a user's whole state as read from MongoDB, then what happened to it meanwhile.
-- ARGV: token, epoch, clock (ms), then conversation and record in turn.
-- Answers 1, or 0 where the claim was lost (the state read may be stale: load again).
if redis.call('GET', LOADING) ~= ARGV[1] then return 0 end
redis.call('DEL', LOADING)
forget()
redis.call('HSET', META, 'epoch', ARGV[2], 'clock', ARGV[3], 'count', 0, 'listed', 0, 'total', 0)
local sum = 0
for i = 4, #ARGV, 2 do
  local rec = cjson.decode(ARGV[i + 1])
  put(ARGV[i], rec, nil)
  sum = sum + counted(ARGV[i], rec)
end
add_total(sum)
local pending = redis.call('LRANGE', PENDING, 0, -1)
redis.call('DEL', PENDING)
for i = 1, #pending, 2 do
  if apply(pending[i], cjson.decode(pending[i + 1]))[1] == 'cold' then return 0 end
end
touch()
return 1
