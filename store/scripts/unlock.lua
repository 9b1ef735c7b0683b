-- Gives the user's lock back if it is still ours. ARGV: token.
if redis.call('GET', LOCK) == ARGV[1] then redis.call('DEL', LOCK) end
return 1
