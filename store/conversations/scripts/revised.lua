-- A message was edited or recalled. ARGV: seq, message (JSON) as it is stored now, at (ms).
-- Who wrote last may come first: what is shown is only ever replaced by something newer.
if redis.call('HEXISTS', HEAD, 's') == 0 then
  -- Who is loading it may have read MongoDB before: have them read again.
  redis.call('DEL', LOADING)
  return 0
end
local head = redis.call('HMGET', HEAD, 'ls', 'last', 'at')
if tonumber(head[1]) ~= tonumber(ARGV[1]) or not head[2] then return 0 end
local old, new = cjson.decode(head[2]), cjson.decode(ARGV[2])
if not old.rc and (new.rc or (new.e or 0) > (old.e or 0)) then redis.call('HSET', HEAD, 'last', ARGV[2]) end
if tonumber(ARGV[3]) > tonumber(head[3]) then redis.call('HSET', HEAD, 'at', ARGV[3]) end
touch()
return 1
