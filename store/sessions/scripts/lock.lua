-- Takes the user's lock and reads what a change needs to know, or waits in line: who is given the lock by its holder is told on
-- their server's channel ("granted"), and calls this again.
-- ARGV: now (ms), owner, server, milliseconds the lock lasts, conversations ...
-- Answers {0, ms until it ends by itself} or {1, fence, epoch or '', clock, record or '', ...}. The fence never repeats while
-- time does not go back: it is at least the time.
local held, entry = redis.call('GET', LOCK), ARGV[3] .. ' ' .. ARGV[2]
if held and held ~= ARGV[2] then
  if not redis.call('LPOS', QUEUE, entry) then redis.call('RPUSH', QUEUE, entry) end
  redis.call('PEXPIRE', QUEUE, 15000)
  return { 0, redis.call('PTTL', LOCK) }
end
if not held then redis.call('LREM', QUEUE, 0, entry) end
local epoch = loaded()
local fence = math.max((tonumber(redis.call('GET', FENCE)) or 0) + 1, NOW)
local token = ARGV[2] .. ':' .. int(fence)
redis.call('SET', FENCE, int(fence), 'PX', IDLE_MS)
redis.call('SET', LOCK, token, 'PX', ARGV[4])
if not epoch then return { 1, int(fence), '', '0' } end
redis.call('HSET', META, 'held', token)
local answer = { 1, int(fence), epoch, redis.call('HGET', META, 'clock') }
for i = 5, #ARGV do answer[i] = redis.call('HGET', SESSIONS, ARGV[i]) or '' end
return answer
