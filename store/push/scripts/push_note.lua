-- Notes conversations in which something happened that users may have to be notified of.
-- KEYS: as for push_take. ARGV: now (ms), then for each conversation: its id, the first and last seq of its new
-- messages (0 0: none), their sender with a leading '@' ('-': several), seqs of recalled messages ('-', or by commas).
-- Records: `NotedConversation` in noted_conversations.py. This changes only the part that nobody has begun to work on.
local due, taken, records = KEYS[1], KEYS[2], KEYS[3]
local now_ms = ARGV[1]
local most_recalled = 1000

for i = 2, #ARGV, 5 do
  local conversation, first, newest = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local sender, recalled, rest = ARGV[i + 3], ARGV[i + 4], '0 0 - - -'
  local record = redis.call('HGET', records, conversation)
  if record then
    local noted_first, noted_newest, noted_sender, noted_recalled, begun =
      string.match(record, '^(%d+) (%d+) (%S+) (%S+) (.*)$')
    noted_first, noted_newest, rest = tonumber(noted_first), tonumber(noted_newest), begun
    if newest == 0 then
      first, newest, sender = noted_first, noted_newest, noted_sender
    elseif noted_newest > 0 then
      if noted_sender ~= sender then sender = '-' end
      first, newest = math.min(first, noted_first), math.max(newest, noted_newest)
    end
    if recalled == '-' or #noted_recalled > most_recalled then
      recalled = noted_recalled
    elseif noted_recalled ~= '-' then
      recalled = noted_recalled .. ',' .. recalled
    end
  end
  redis.call('HSET', records, conversation,
    string.format('%d %d %s %s %s', first, newest, sender, recalled, rest))
  if not redis.call('ZSCORE', taken, conversation) then redis.call('ZADD', due, 'NX', now_ms, conversation) end
end
