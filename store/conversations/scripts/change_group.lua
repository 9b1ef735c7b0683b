-- Changes memberships of a group and what it says about itself, in one step with the place of the SYSTEM message that tells of
-- it: who joins sees what follows from that message on, who leaves what was before it, whatever else is being written.
-- ARGV: version of the membership that the change was decided on, now (ms), message (JSON), told (0/1), fields of the group (JSON),
-- then user and what becomes of them (join, leave or a role) in turn.
-- Answers {'ok', seq, n, version, outbox entry, change (JSON)}, or {refusal}: cold, busy (another change is on its way), moved
-- (decided on what is not so any more).
if not loaded() then return { 'cold' } end
local head = redis.call('HMGET', HEAD, 'mv', 'gv', 'n', 'mc', 'j', 'pc', 's', 'w')
if head[6] then return { 'busy' } end
if head[1] ~= ARGV[1] then return { 'moved' } end
local told, seq = ARGV[4] == '1', 0
if told then seq = redis.call('HINCRBY', HEAD, 's', 1) end
local change = { v = (tonumber(head[2]) or 0) + 1, mc = tonumber(head[4]), sb = cjson.decode(head[5]).sb, w = tonumber(head[8]) }
if not told then change.q = true end
local function add(list, item)
  change[list] = change[list] or {}
  table.insert(change[list], item)
end
for i = 6, #ARGV, 2 do
  local user, what = ARGV[i], ARGV[i + 1]
  local m = member(user) or { i = {} }
  if what == 'join' then
    m.r, m.j = 'MEMBER', tonumber(ARGV[2])
    m.i[#m.i + 1] = { seq, -1 }
    change.mc = change.mc + 1
    add('in', user)
  elseif what == 'leave' then
    m.i[#m.i][2] = seq - 1
    change.mc = change.mc - 1
    add('out', user)
  else
    m.r = what
  end
  add('mem', { user, cjson.encode(m) })
end
local fields = cjson.decode(ARGV[5])
if next(fields) ~= nil then change.set = fields end
if fields.st then
  fields.ds = tonumber(head[7])
  change.mc = 0
end
apply_change(change)
local text = cjson.encode(change)
local entry = redis.call('XADD', OUTBOX, '*', 's', seq, 'n', head[3], 'c', cjson.decode(ARGV[3]).c, 'm', ARGV[3], 'g', text)
redis.call('HSET', HEAD, 'pc', entry)
touch()
return { 'ok', seq, tonumber(head[3]), redis.call('HGET', HEAD, 'mv'), entry, text }
