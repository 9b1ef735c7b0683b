-- Makes a user a watcher of a conversation, or extends the time until which they are one.
-- ARGV: now (ms), user, time until which they certainly look (ms), epoch and tick of the user's clock at a moment after
-- an earlier call ('' and 0: none), token of the set at that call, and a token for a new set.
-- Returns { token of the set, "<epoch> <tick>" from which on they have all events, or '' if that is not known }.
local user, until_ms, epoch, tick_text, expected, new_token = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

remove_expired()
local token = find_token()
if not token then
  redis.call('DEL', WATCHERS, WATCHING)
  redis.call('HSET', WATCHING, TOKEN, new_token)
  token = new_token
end
if epoch ~= '' and token == expected and redis.call('ZSCORE', WATCHERS, user) then
  local known_epoch, known_tick = string.match(redis.call('HGET', WATCHING, user) or '', '^(%S+) (%d+)$')
  if known_epoch ~= epoch or tonumber(known_tick) > tonumber(tick_text) then
    redis.call('HSET', WATCHING, user, epoch .. ' ' .. tick_text)
  end
end
keep_watching(user, until_ms)
return { token, redis.call('HGET', WATCHING, user) or '' }
