-- Returns everything that is cached of the user's sessions, at one moment. Does not renew the time to live.
-- ARGV: now (ms).
-- Returns {} if the state is not cached, else { fields of meta and their values in turn, then the contents of the keys
-- sessions, index, list and mutes, then those of channels, channel_index and channel_list if they are loaded }.
local epoch = current_epoch()
if not epoch then return {} end
local in_channels = find_channels()
if in_channels == nil then return {} end
local answer = {
  redis.call('HGETALL', META),
  redis.call('HGETALL', SESSIONS),
  redis.call('ZRANGE', INDEX, 0, -1, 'WITHSCORES'),
  redis.call('ZRANGE', LIST, 0, -1),
  redis.call('ZRANGE', MUTES, 0, -1, 'WITHSCORES'),
}
if in_channels then
  answer[6] = redis.call('HGETALL', TAG .. 'channels')
  answer[7] = redis.call('ZRANGE', TAG .. 'channel_index', 0, -1, 'WITHSCORES')
  answer[8] = redis.call('ZRANGE', TAG .. 'channel_list', 0, -1)
end
return answer
