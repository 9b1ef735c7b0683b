-- Applies changes to a user's cached state, in order, if it is loaded.
-- ARGV: now (ms), token of the lock, which is given back, or '', then kind and change (see _changes.lua) in turn.
-- Answers {'ok', epoch, routes, outcome, ...} with an outcome for each change (see _changes.lua), or {status}: cold (not loaded),
-- pending (a load under way will apply them), fenced (the lock is not the caller's any more).
local token = ARGV[2]
if token ~= '' and redis.call('GET', LOCK) ~= token then return { 'fenced' } end
local epoch, answer = loaded(), nil
if epoch then
  answer = { 'ok', epoch, routes() }
  for i = 3, #ARGV, 2 do
    local outcome = apply(ARGV[i], ARGV[i + 1])
    if outcome[1] == 'cold' then
      answer = { 'cold' }
      break
    end
    answer[#answer + 1] = outcome
  end
  touch()
elseif redis.call('HEXISTS', LOADING, 'token') == 1 then
  for i = 3, #ARGV, 2 do redis.call('RPUSH', PENDING, ARGV[i], ARGV[i + 1]) end
  redis.call('PEXPIRE', PENDING, 60000)
  redis.call('HINCRBY', LOADING, 'pending', #ARGV - 2)
  answer = { 'pending' }
else
  answer = { 'cold' }
end
-- Who listens to a state that is gone hears of it from here.
if not epoch then remind() end
if token ~= '' then release(token) end
return answer
