-- Applies one change to a user's cached state, if it is loaded.
-- ARGV: kind, change (JSON), now (ms), lock token or ''.
-- Answers {status, epoch, routes, record, tick, previous, total, old readSeq, old unread}.
-- status: ok, applied (nothing changed), cold (not loaded), pending (a load under way will apply it), fenced.
local kind, change, now, token = ARGV[1], cjson.decode(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
if token ~= '' then
  if redis.call('GET', LOCK) ~= token then return { 'fenced' } end
  redis.call('DEL', LOCK)
end
local epoch = loaded()
if not epoch then
  if redis.call('EXISTS', LOADING) == 1 then
    redis.call('RPUSH', PENDING, kind, ARGV[2])
    redis.call('PEXPIRE', PENDING, 60000)
    return { 'pending' }
  end
  return { 'cold' }
end
local answer = apply(kind, change)
if answer[1] == 'cold' then return { 'cold' } end
touch()
return { answer[1], epoch, routes(now), answer[2], answer[3], answer[4], answer[5], answer[6], answer[7] }
