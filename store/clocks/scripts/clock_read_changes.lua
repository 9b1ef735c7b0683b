-- Returns what changed on a shared clock after a tick, each object and channel once, with the tick of its newest event.
-- ARGV: now (ms), tick, how much earlier the messages of channels may be.
-- Returns { epoch, clock, policy version or '', complete (0/1), number of channels, channel, tick, ..., object, tick,
-- ... }. Not complete: the tick is in the future, or too old; what follows may lack some then.
local since, margin = tonumber(ARGV[2]), tonumber(ARGV[3])
local epoch, clock = open_clock()
local meta = redis.call('HMGET', META, 'floor', 'listed', 'pv')
local floor, listed, version = tonumber(meta[1]), tonumber(meta[2]), meta[3] or ''
if redis.call('ZCARD', RECENT) + redis.call('ZCARD', CHANGED) ~= listed then
  -- Redis has evicted one of the lists.
  redis.call('DEL', RECENT, CHANGED)
  redis.call('HSET', META, 'floor', int(clock), 'listed', 0)
  floor = clock
end
local recent = redis.call('ZRANGEBYSCORE', RECENT, '(' .. int(since - margin), '+inf', 'WITHSCORES')
local changed = redis.call('ZRANGEBYSCORE', CHANGED, '(' .. int(since), '+inf', 'WITHSCORES')
local answer = { epoch, int(clock), version, since >= floor and since <= clock and 1 or 0, #recent / 2 }
for _, found in ipairs({ recent, changed }) do
  for _, text in ipairs(found) do answer[#answer + 1] = text end
end
return answer
