-- The categories in use, each with its sums and the session written to last. ARGV: now (ms).
-- Answers {} where the state isn't loaded, else {epoch, clock, total, category, sessions, unread, conversation, writeTs, ...}.
local epoch = loaded()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
local all = redis.call('HGETALL', META)
for i = 1, #all, 2 do
  local category = string.match(all[i], '^nc(.*)$')
  if category then
    local newest, w = first_of('C' .. category)
    answer[#answer + 1] = category
    answer[#answer + 1] = all[i + 1]
    answer[#answer + 1] = redis.call('HGET', META, 'uc' .. category) or '0'
    answer[#answer + 1] = newest
    answer[#answer + 1] = int(w)
  end
end
touch()
return answer
