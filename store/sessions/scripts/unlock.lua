-- Releases the user's lock if it is still the caller's, and takes the caller out of the queue.
-- ARGV: now (ms), token or owner, server, 1 to drop the cached state because MongoDB may have newer data.
local token, server, drops_state = ARGV[2], ARGV[3], ARGV[4] == '1'
redis.call('LREM', QUEUE, 0, server .. ' ' .. token)
if drops_state then
  drop_state()
  redis.call('DEL', LOADING)
end
local holder = redis.call('GET', LOCK)
if holder and (holder == token or string.sub(holder, 1, #token + 1) == token .. ':') then release_lock(holder) end
return 1
