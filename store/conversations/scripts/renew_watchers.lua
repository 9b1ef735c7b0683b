-- Extends the time of watchers of a conversation.
-- ARGV: now (ms), time until which they certainly look (ms), then users.
-- Returns { token of the set or '', users who were no watchers any more, ... }. These may have missed events, and stay
-- none.
local until_ms, FIRST_USER = ARGV[2], 3

local answer = { find_token() or '' }
for i = FIRST_USER, #ARGV do
  if answer[1] ~= '' and redis.call('ZSCORE', WATCHERS, ARGV[i]) then
    keep_watching(ARGV[i], until_ms)
  else
    answer[#answer + 1] = ARGV[i]
  end
end
return answer
