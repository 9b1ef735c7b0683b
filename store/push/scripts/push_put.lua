-- Puts new messages of a conversation into the intents of users.
-- KEYS: as for push_take. ARGV: now (ms), the conversation, the first and the last seq, then the users.
-- Records: `PushIntent` in push_intents.py. Returns the number of intents that wait for a decision now.
local due, taken, records = KEYS[1], KEYS[2], KEYS[3]
local now_ms, conversation = tonumber(ARGV[1]), ARGV[2]
local first, newest = tonumber(ARGV[3]), tonumber(ARGV[4])

local put = 0
for i = 5, #ARGV do
  local member = ARGV[i] .. ' ' .. conversation
  local record = redis.call('HGET', records, member)
  local is_taken = redis.call('ZSCORE', taken, member)
  if not record then
    redis.call('HSET', records, member, string.format('%d %d 0 0 0 0 -', first, newest))
    if not is_taken then redis.call('ZADD', due, now_ms, member) end
    put = put + 1
  else
    local from, to, shown, cool_until_ms, rest = string.match(record, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
    local shown_seq, next_ms = tonumber(shown), math.max(now_ms, tonumber(cool_until_ms))
    from, to = tonumber(from), tonumber(to)
    -- The same messages are noted again after a server has died.
    if newest > math.max(shown_seq, to) or (to > 0 and first < from) then
      if to == 0 then from = math.max(first, shown_seq + 1) else from = math.min(first, from) end
      to = math.max(newest, to)
      redis.call('HSET', records, member, string.format('%d %d %s %s %s', from, to, shown, cool_until_ms, rest))
      local at = redis.call('ZSCORE', due, member)
      if not is_taken and (not at or tonumber(at) > next_ms) then redis.call('ZADD', due, next_ms, member) end
      put = put + 1
    end
  end
end
return put
