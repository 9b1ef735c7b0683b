-- Notes that a server is alive, or that it has ended.
-- KEYS: the times of servers: hash, server -> "<time> <0 or 1>": when it last reported (ms), and whether that was its
-- end. ARGV: now (ms), server, 0 or 1, time before which entries are removed (ms).
-- Returns the hash.
local times, now_ms, server, has_ended, oldest_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

redis.call('HSET', times, server, now_ms .. ' ' .. has_ended)
local entries = redis.call('HGETALL', times)
for i = 1, #entries, 2 do
  if tonumber(string.match(entries[i + 1], '^%d+')) < oldest_ms then redis.call('HDEL', times, entries[i]) end
end
return redis.call('HGETALL', times)
