-- Stores a head, and its members if they were read, from MongoDB. A head that is there already stays: it may be ahead.
-- ARGV: token, with the members (0/1), number of head fields, field and value in turn, then user and member in turn.
-- Answers 1, or 0 where the claim was lost (load again).
if redis.call('GET', LOADING) ~= ARGV[1] then return 0 end
redis.call('DEL', LOADING)
local fields = tonumber(ARGV[3])
if redis.call('HEXISTS', HEAD, 's') == 0 then
  redis.call('DEL', HEAD)
  for i = 1, fields do redis.call('HSET', HEAD, ARGV[2 + 2 * i], ARGV[3 + 2 * i]) end
end
if ARGV[2] == '1' then
  redis.call('DEL', MEMBERS)
  local total, current = 0, 0
  for i = 4 + 2 * fields, #ARGV, 2 do
    redis.call('HSET', MEMBERS, ARGV[i], ARGV[i + 1])
    total = total + 1
    if is_current(cjson.decode(ARGV[i + 1])) then current = current + 1 end
  end
  redis.call('HSET', HEAD, 'mt', total, 'mc', current)
  redis.call('HINCRBY', HEAD, 'mv', 1)
end
touch()
return 1
