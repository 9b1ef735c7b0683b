-- Gives the user's lock back if it is still ours, and our place in line. ARGV: now (ms), token or owner, server, whether what
-- MongoDB holds may be more than what this state does (0/1): then it is loaded anew.
redis.call('LREM', QUEUE, 0, ARGV[3] .. ' ' .. ARGV[2])
if ARGV[4] == '1' then
  forget()
  redis.call('DEL', LOADING)
end
local held = redis.call('GET', LOCK)
if held and (held == ARGV[2] or string.sub(held, 1, #ARGV[2] + 1) == ARGV[2] .. ':') then release(held) end
return 1
