-- Takes the user's lock and reads the sessions that a change needs, or puts the caller into the queue. When a holder
-- releases the lock, it is handed to the first in the queue. That server gets a frame, and calls this again.
-- ARGV: now (ms), owner, server, duration of the lock (ms), conversations.
-- Returns { 0, time until the lock expires (ms) } or { 1, fence, epoch or '', clock, record or '', ... }. The epoch is
-- '' if the state is not cached, or sessions in channels are wanted and not loaded. A fence is at
-- least the current time. So no fence is used twice, even if the last one was evicted, unless clocks go back.
local owner, server, lock_ms, first_conversation = ARGV[2], ARGV[3], ARGV[4], 5
local holder, waiter = redis.call('GET', LOCK), server .. ' ' .. owner
if holder and holder ~= owner then
  if not redis.call('LPOS', QUEUE, waiter) then redis.call('RPUSH', QUEUE, waiter) end
  redis.call('PEXPIRE', QUEUE, QUEUE_MS)
  return { 0, redis.call('PTTL', LOCK) }
end
if not holder then redis.call('LREM', QUEUE, 0, waiter) end
local epoch, is_loaded = current_epoch(), nil
for i = first_conversation, #ARGV do
  if epoch and is_loaded == nil and is_channel(ARGV[i]) then
    is_loaded = find_channels()
    if is_loaded == nil then epoch = nil end
  end
end
local fence = math.max((tonumber(redis.call('GET', FENCE)) or 0) + 1, NOW)
local token = owner .. ':' .. int(fence)
redis.call('SET', FENCE, int(fence), 'PX', IDLE_MS)
redis.call('SET', LOCK, token, 'PX', lock_ms)
if not epoch then return { 1, int(fence), '', '0' } end
redis.call('HSET', META, 'held', token)
local answer = { 1, int(fence), is_loaded == false and '' or epoch, redis.call('HGET', META, 'clock') }
for i = first_conversation, #ARGV do
  answer[#answer + 1] = redis.call('HGET', records_key(ARGV[i]), ARGV[i]) or ''
end
return answer
