-- A message is durable: readers may see it. ARGV: seq (0: none, only a change of the group is durable), message (JSON), at (ms; 0: no
-- session moved by it), countable (0/1), then outbox entry and change (JSON; already so, unless head or membership were loaded in between).
local changes = #ARGV > 4
if redis.call('HEXISTS', HEAD, 's') == 0 or (changes and not members_loaded()) then
  -- Who is loading them may have read MongoDB before this message was there: have them read again.
  redis.call('DEL', LOADING)
end
if redis.call('HEXISTS', HEAD, 's') == 0 then return 0 end
local seq, at = tonumber(ARGV[1]), tonumber(ARGV[3])
local head = redis.call('HMGET', HEAD, 'ls', 'at', 'w', 'pc')
if at > tonumber(head[2]) then redis.call('HSET', HEAD, 'at', ARGV[3]) end
if ARGV[4] == '1' and at > tonumber(head[3]) then redis.call('HSET', HEAD, 'w', ARGV[3]) end
if seq > tonumber(head[1]) then redis.call('HSET', HEAD, 'ls', ARGV[1], 'last', ARGV[2]) end
if changes then
  apply_change(cjson.decode(ARGV[6]))
  if head[4] == ARGV[5] then redis.call('HDEL', HEAD, 'pc') end
end
touch()
return tonumber(redis.call('HGET', HEAD, 'ls'))
