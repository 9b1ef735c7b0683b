-- Makes people members and gives the SYSTEM message that tells of it its seq, in one step: who joins sees what
-- follows from that message on, whatever else is being written.
-- ARGV: inviter, most members allowed, now (ms), message (JSON; its "join" is filled in), then users.
-- Answers {'ok', seq, n, version, outbox entry, message (JSON) with those who were not members},
-- or {refusal}: cold, dissolved, outsider, former, full; {'none'} where all are members already.
if not loaded() then return { 'cold' } end
if not is_group() then return { 'outsider' } end
if redis.call('HGET', HEAD, 'st') == 'D' then return { 'dissolved' } end
local inviter = member(ARGV[1])
if inviter == nil then return { 'outsider' } end
if not is_current(inviter) then return { 'former' } end
local new = {}
for i = 5, #ARGV do
  if not is_current(member(ARGV[i])) then new[#new + 1] = ARGV[i] end
end
if #new == 0 then return { 'none' } end
local count = tonumber(redis.call('HGET', HEAD, 'mc')) + #new
if count > tonumber(ARGV[2]) then return { 'full' } end
local seq = redis.call('HINCRBY', HEAD, 's', 1)
local n = tonumber(redis.call('HGET', HEAD, 'n'))
local message = cjson.decode(ARGV[4])
message.join, message.m, message.mc = {}, new, count
message.sb = cjson.decode(redis.call('HGET', HEAD, 'j')).sb
for _, user in ipairs(new) do
  local m = member(user)
  if m == nil then
    m = { i = {} }
    redis.call('HINCRBY', HEAD, 'mt', 1)
  end
  m.r, m.j = 'MEMBER', tonumber(ARGV[3])
  m.i[#m.i + 1] = { seq, -1 }
  local text = cjson.encode(m)
  redis.call('HSET', MEMBERS, user, text)
  message.join[#message.join + 1] = { user, text }
end
redis.call('HSET', HEAD, 'mc', count)
local version = tostring(redis.call('HINCRBY', HEAD, 'mv', 1))
local text = cjson.encode(message)
local entry = redis.call('XADD', OUTBOX, '*', 's', seq, 'n', n, 'c', message.c, 'm', text)
touch()
return { 'ok', seq, n, version, entry, text }
