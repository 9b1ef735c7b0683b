-- Some of a user's sessions. ARGV: now (ms), conversations; none: the names of all groups the user is a member of.
-- Answers {} where the state isn't loaded, else {epoch, clock, total, record or '', ...} or {…, group, ...}.
local epoch = loaded()
if not epoch then return {} end
local meta = redis.call('HMGET', META, 'clock', 'total')
local answer = { epoch, meta[1], tonumber(meta[2]) or 0 }
if #ARGV > 1 then
  for _, text in ipairs(redis.call('HMGET', SESSIONS, unpack(ARGV, 2))) do answer[#answer + 1] = text or '' end
else
  local all = redis.call('HGETALL', SESSIONS)
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'g_' then
      local rec = cjson.decode(all[i + 1])
      if not rec.f and not rec.dd then answer[#answer + 1] = all[i] end
    end
  end
end
touch()
return answer
