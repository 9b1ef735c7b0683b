-- A message is durable: readers may see it. ARGV: seq, message (JSON), at (ms), countable (0/1),
-- then user and member in turn for whom it made a member (already so, unless the membership was loaded in between).
if redis.call('HEXISTS', HEAD, 's') == 0 or (#ARGV > 4 and not members_loaded()) then
  -- Who is loading them may have read MongoDB before this message was there: have them read again.
  redis.call('DEL', LOADING)
end
if redis.call('HEXISTS', HEAD, 's') == 0 then return 0 end
local seq, at = tonumber(ARGV[1]), tonumber(ARGV[3])
local head = redis.call('HMGET', HEAD, 'ls', 'at', 'w')
if at > tonumber(head[2]) then redis.call('HSET', HEAD, 'at', ARGV[3]) end
if ARGV[4] == '1' and at > tonumber(head[3]) then redis.call('HSET', HEAD, 'w', ARGV[3]) end
if seq > tonumber(head[1]) then redis.call('HSET', HEAD, 'ls', ARGV[1], 'last', ARGV[2]) end
if #ARGV > 4 and members_loaded() then
  for i = 5, #ARGV, 2 do
    local m = member(ARGV[i])
    if m == nil then redis.call('HINCRBY', HEAD, 'mt', 1) end
    if m == nil or m.i[#m.i][1] < seq then
      redis.call('HSET', MEMBERS, ARGV[i], ARGV[i + 1])
      if not is_current(m) then redis.call('HINCRBY', HEAD, 'mc', 1) end
      redis.call('HINCRBY', HEAD, 'mv', 1)
    end
  end
end
touch()
return tonumber(redis.call('HGET', HEAD, 'ls'))
