-- Returns what changed on a shared clock after a tick, each object and channel once, with the tick of its newest event.
-- ARGV: now (ms), tick, how much earlier the messages of channels may be, the user who asks.
-- Returns { epoch, clock, policy version or '', complete (0/1), tick of the newest change of the user's own membership
-- (0 if there is none), number of channels, channel, tick, ..., object, tick, ... }. Not complete: the tick is in the
-- future, or too old; the others may lack some then.
local since, margin, user = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local epoch, clock = open_clock()
local meta = redis.call('HMGET', META, 'floor', 'members_floor', 'listed', 'pv')
local floor, listed, version = math.max(tonumber(meta[1]), tonumber(meta[2])), tonumber(meta[3]), meta[4] or ''
if redis.call('ZCARD', RECENT) + redis.call('ZCARD', CHANGED) + redis.call('ZCARD', MEMBERS) ~= listed then
  -- Redis has evicted one of the lists.
  redis.call('DEL', RECENT, CHANGED, MEMBERS)
  redis.call('HSET', META, 'floor', int(clock), 'members_floor', int(clock), 'listed', 0)
  floor = clock
end
local own = tonumber(redis.call('ZSCORE', MEMBERS, user) or 0)
local recent = redis.call('ZRANGEBYSCORE', RECENT, '(' .. int(since - margin), '+inf', 'WITHSCORES')
local changed = redis.call('ZRANGEBYSCORE', CHANGED, '(' .. int(since), '+inf', 'WITHSCORES')
local complete = since >= floor and since <= clock and 1 or 0
local answer = { epoch, int(clock), version, complete, own > since and int(own) or '0', #recent / 2 }
for _, found in ipairs({ recent, changed }) do
  for _, text in ipairs(found) do answer[#answer + 1] = text end
end
return answer
