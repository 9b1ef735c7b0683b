-- Applies changes to a user's cached state, in order, if it is cached.
-- ARGV: now (ms), token of the user's lock, which is released, or '', then kind and change in turn (_changes.lua).
-- Returns what apply_all returns (_changes.lua), or { 'fenced' } if the lock has another holder now.
local token, first_change = ARGV[2], 3
if token ~= '' and redis.call('GET', LOCK) ~= token then return { 'fenced' } end
local answer = apply_all(ARGV, first_change)
if token ~= '' then release_lock(token) end
return answer
