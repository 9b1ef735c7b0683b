-- Puts a user's notification settings into the record, unless it has later ones.
-- KEYS[1]: hash with `settings`, `revision` and a field for each change that is being made.
-- ARGV: revision, settings (JSON), time for which the record is kept (ms), then the fields of changes that have ended.
local record, revision, settings, kept_ms = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]

for i = 4, #ARGV do redis.call('HDEL', record, ARGV[i]) end
if revision > tonumber(redis.call('HGET', record, 'revision') or '-1') then
  redis.call('HSET', record, 'revision', ARGV[1], 'settings', settings)
end
redis.call('PEXPIRE', record, kept_ms)
