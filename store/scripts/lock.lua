-- Takes the user's lock and reads what a change needs to know. ARGV: owner, milliseconds it lasts, now (ms), conversation.
-- Answers {0, ms until it ends} or {1, fence, loaded (0/1), record or ''}. The fence never repeats while the clock does not
-- step back past a loss of Redis: it is at least the time.
local ends = redis.call('PTTL', LOCK)
if ends > 0 then return { 0, ends } end
local fence = math.max((tonumber(redis.call('GET', FENCE)) or 0) + 1, tonumber(ARGV[3]))
redis.call('SET', FENCE, int(fence), 'PX', IDLE_MS)
redis.call('SET', LOCK, ARGV[1] .. ':' .. int(fence), 'PX', ARGV[2])
if not loaded() then return { 1, int(fence), 0, '' } end
return { 1, int(fence), 1, redis.call('HGET', SESSIONS, ARGV[4]) or '' }
