-- Makes intents due whose notification is shown: it may have to be removed or replaced. Intents that a worker has taken
-- are marked too: it may be showing one. Others stay as they are.
-- KEYS: as for push_take. ARGV: now (ms), seqs of recalled messages with commas (only notifications that show one of
-- them; '': all), then the members. Returns the number of intents that became due.
local due, taken, records = KEYS[1], KEYS[2], KEYS[3]
local now_ms, recalled = ARGV[1], ARGV[2]

local touched = 0
for i = 3, #ARGV do
  local member = ARGV[i]
  local record = redis.call('HGET', records, member)
  local before, shown, cool_until_ms, touches, rest = string.match(record or '', '^(%d+ %d+) (%d+) (%d+) (%d+) (.*)$')
  if shown then
    local is_taken = redis.call('ZSCORE', taken, member)
    local is_named = recalled == '' or string.find(',' .. recalled .. ',', ',' .. shown .. ',', 1, true)
    if is_taken or (shown ~= '0' and is_named) then
      -- The number tells a worker that has the intent about a further touch.
      redis.call('HSET', records, member,
        string.format('%s %s %s %d %s', before, shown, cool_until_ms, tonumber(touches) + 1, rest))
      if not is_taken then redis.call('ZADD', due, now_ms, member) end
      touched = touched + 1
    end
  end
end
return touched
