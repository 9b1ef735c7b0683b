-- Puts a record of a user that MongoDB has into Redis, unless Redis has a later one.
-- KEYS[1]: hash with `value`, `revision` and a field for each change that is being made.
-- ARGV: revision, value (JSON), time for which the record is kept (ms), then the fields of changes that have ended.
local record, revision, value, kept_ms = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]

for i = 4, #ARGV do redis.call('HDEL', record, ARGV[i]) end
local cached = redis.call('HMGET', record, 'revision', 'value')
local cached_revision = tonumber(cached[1] or '-1')
-- Servers of the version before store notification settings under another name.
if revision > cached_revision or (revision == cached_revision and not cached[2]) then
  redis.call('HSET', record, 'revision', ARGV[1], 'value', value)
end
redis.call('PEXPIRE', record, kept_ms)
