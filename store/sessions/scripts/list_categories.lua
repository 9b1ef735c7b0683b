-- Returns the categories that have sessions, each with its sums and its newest session.
-- ARGV: now (ms).
-- Returns {} if the state is not cached, else { epoch, clock, total, ... } with category, number of sessions, unread
-- messages, conversation of the newest session and its write_ts in turn.
local epoch = current_epoch()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
local fields = redis.call('HGETALL', META)
for i = 1, #fields, 2 do
  local category = string.match(fields[i], '^nc(.*)$')
  if category then
    local newest, write_ts = first_of('C' .. category)
    answer[#answer + 1] = category
    answer[#answer + 1] = fields[i + 1]
    answer[#answer + 1] = redis.call('HGET', META, 'uc' .. category) or '0'
    answer[#answer + 1] = newest
    answer[#answer + 1] = int(write_ts)
  end
end
touch()
return answer
