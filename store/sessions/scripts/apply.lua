-- Applies changes to a user's cached state, in order, if it is cached.
-- ARGV: now (ms), token of the user's lock, which is released, or '', then kind and change in turn (_changes.lua).
-- Returns { 'ok', epoch, routes, outcome, ... } with the outcome of each change (_changes.lua), or { status }:
-- not_cached, pending (a running load will apply the changes), fenced (the lock has another holder now).
local token, first_change = ARGV[2], 3
if token ~= '' and redis.call('GET', LOCK) ~= token then return { 'fenced' } end
local epoch, answer = current_epoch(), nil
if epoch then
  answer = { 'ok', epoch, list_routes() }
  for i = first_change, #ARGV, 2 do
    local outcome = apply(ARGV[i], ARGV[i + 1])
    if outcome[1] == 'not_cached' then
      answer = { 'not_cached' }
      break
    end
    answer[#answer + 1] = outcome
  end
  touch()
elseif redis.call('HEXISTS', LOADING, 'token') == 1 then
  for i = first_change, #ARGV, 2 do redis.call('RPUSH', PENDING, ARGV[i], ARGV[i + 1]) end
  redis.call('PEXPIRE', PENDING, PENDING_MS)
  redis.call('HINCRBY', LOADING, 'pending', #ARGV - first_change + 1)
  answer = { 'pending' }
else
  answer = { 'not_cached' }
end
-- If the state is not cached, this is the only way to notify servers that hold connections of the user.
if not epoch then wake_hubs() end
if token ~= '' then release_lock(token) end
return answer
