-- Shared by every script on one user's keys: the session records, and the lists and sums that follow from them.
--
-- A record is a JSON object:
--   s writeSeq   n countable messages up to s      r read as the senders know   rn countable up to r   d deliveredSeq
--   x deleted at seq   xn countable up to x (absent: never deleted)   p priority  m muted  mu muted until (ms, as text: Lua's JSON keeps
--   14 digits)
--   us writeSeq when it was marked unread   ca category  sb subBiz  a activeTs  w writeTs
--   ms seqs of unread messages that mention the user  f last readable seq of a former member  dd the group has ended
--   pr, pd how far the peer of a private conversation has read and received, pt, dt how far this user was told so
--   g seqs up to s that may still come, as first and last of each stretch in turn (absent: none)
-- The gateway of a subBiz (b_…) has p, m, mu, a, w and: ow its own writeTs, gn gu gq how many sessions inside are valid, their
-- unread and mentions, lc the one with the newest writeTs.
--
-- Lists, each newest position first: m main, b<subBiz>, c<category>, x<subBiz> <category>, ordered by priority, then writeTs;
-- B<subBiz>, C<category>, ordered by writeTs alone; o, where something is not delivered, in no order that means anything.
local PINNED = 4398046511104 -- 2^42: a priority outweighs any writeTs

local function is_gateway(conversation)
  return string.sub(conversation, 1, 2) == 'b_'
end

-- A private conversation exists from its first message; a deleted session lives again once a countable message passed.
local function valid(conversation, rec)
  if is_gateway(conversation) then return (rec.gn or 0) > 0 end
  if rec.dd or (rec.s == 0 and string.sub(conversation, 1, 2) == 'p_') then return false end
  return rec.x == nil or rec.n > rec.xn
end

local function unread(conversation, rec)
  if is_gateway(conversation) then return rec.gu or 0 end
  if not valid(conversation, rec) then return 0 end
  return math.max(0, rec.n - math.max(rec.rn, rec.xn or 0))
end

local function mentions(rec)
  local count, read = 0, math.max(rec.r, rec.x or 0)
  for _, seq in ipairs(rec.ms or {}) do
    if seq > read then count = count + 1 end
  end
  return count
end

local function get(conversation)
  local text = redis.call('HGET', SESSIONS, conversation)
  if not text then return nil end
  return cjson.decode(text)
end

-- Lua's JSON can't tell an empty list from an empty object: neither is kept. What every record has comes first and in this order
-- (`_plain.lua` reads it so), then pr and pd, then anything else.
local FORM = '{"s":%.0f,"n":%.0f,"r":%.0f,"rn":%.0f,"d":%.0f,"p":%.0f,"a":%.0f,"w":%.0f'
local FIRST = { s = 1, n = 1, r = 1, rn = 1, d = 1, p = 1, a = 1, w = 1, pr = 1, pd = 1 }

local function encode(rec)
  local more, text = {}, string.format(FORM, rec.s, rec.n, rec.r, rec.rn, rec.d, rec.p, rec.a, rec.w)
  if rec.pr or rec.pd then text = text .. string.format(',"pr":%.0f,"pd":%.0f', rec.pr or 0, rec.pd or 0) end
  for field, value in pairs(rec) do
    if not FIRST[field] and not (type(value) == 'table' and #value == 0) then more[field] = value end
  end
  return text .. (next(more) and ',' .. string.sub(cjson.encode(more), 2) or '}')
end

local function place(list, position, conversation)
  return list .. '\n' .. string.format('%016.0f', position) .. '\n' .. conversation
end

-- What a session contributes to lists and sums. Taken before a change and after it; `put` carries out the difference.
local function standing(conversation, rec)
  local now = { places = {}, sums = {} }
  if rec == nil then return now end
  if rec.m == 1 then now.ends = rec.mu end
  if not valid(conversation, rec) then return now end
  local places, sums, position = now.places, now.sums, rec.p * PINNED + rec.w
  local counted = rec.m == 1 and 0 or unread(conversation, rec)
  places[place(rec.sb and 'b' .. rec.sb or 'm', position, conversation)] = true
  -- What is inside a subBiz counts in the total by way of its gateway.
  if not rec.sb then sums.total = counted end
  if is_gateway(conversation) then return now end
  if math.max(rec.d, rec.x or 0) < rec.s then places[place('o', 0, conversation)] = true end
  local lists = {}
  if rec.sb then
    places[place('B' .. rec.sb, rec.w, conversation)] = true
    lists[1] = 'b' .. rec.sb
  end
  if rec.ca then
    places[place('c' .. rec.ca, position, conversation)] = true
    places[place('C' .. rec.ca, rec.w, conversation)] = true
    lists[#lists + 1] = 'c' .. rec.ca
    if rec.sb then places[place('x' .. rec.sb .. ' ' .. rec.ca, position, conversation)] = true end
  end
  for _, list in ipairs(lists) do
    sums['n' .. list], sums['u' .. list] = 1, counted
    sums['q' .. list] = rec.m == 1 and 0 or mentions(rec)
  end
  return now
end

-- Stores a record, and brings lists and sums from where it stood (standing before the change) to where it stands now.
local function put(conversation, rec, was, fresh)
  local text = encode(rec)
  redis.call('HSET', SESSIONS, conversation, text)
  redis.call('ZADD', INDEX, int(rec.a), conversation)
  if fresh then
    redis.call('HINCRBY', META, 'count', 1)
    made = true
  end
  local now, listed = standing(conversation, rec), 0
  for name in pairs(now.places) do
    if not was.places[name] then listed = listed + redis.call('ZADD', LIST, 0, name) end
  end
  for name in pairs(was.places) do
    if not now.places[name] then listed = listed - redis.call('ZREM', LIST, name) end
  end
  if listed ~= 0 and redis.call('HINCRBY', META, 'listed', listed) == listed then made = true end
  local sums = now.sums
  for field, value in pairs(was.sums) do sums[field] = (sums[field] or 0) - value end
  for field, change in pairs(sums) do
    if change ~= 0 and redis.call('HINCRBY', META, field, int(change)) == 0 and field ~= 'total' then
      redis.call('HDEL', META, field)
    end
  end
  if was.ends ~= now.ends then
    if now.ends then
      if redis.call('ZADD', MUTES, int(now.ends), conversation) == 1 then
        redis.call('HINCRBY', META, 'timed', 1)
        made = true
      end
    else
      redis.call('HINCRBY', META, 'timed', -redis.call('ZREM', MUTES, conversation))
    end
    redis.call('HSET', META, 'due', redis.call('ZRANGE', MUTES, 0, 0, 'WITHSCORES')[2] or '')
  end
  return text
end

-- The session at the head of a list, and its position; nil where the list is empty.
local function first_of(list)
  local name = redis.call('ZREVRANGEBYLEX', LIST, '(' .. list .. '\n~', '[' .. list .. '\n', 'LIMIT', 0, 1)[1]
  if not name then return nil end
  local position, conversation = string.match(name, '^[^\n]*\n(%d+)\n(.*)$')
  return conversation, tonumber(position)
end

-- Brings the gateway of a subBiz up to date with what is inside, which moved: it takes the tick given.
local function put_gateway(sub_biz, at)
  local conversation = 'b_' .. sub_biz
  local rec = get(conversation)
  local was = standing(conversation, rec)
  local fresh = rec == nil
  if fresh then rec = { s = 0, n = 0, r = 0, rn = 0, d = 0, p = 0, a = 0, w = 0, ow = 0 } end
  local list = 'b' .. sub_biz
  local sums = redis.call('HMGET', META, 'n' .. list, 'u' .. list, 'q' .. list)
  rec.gn, rec.gu, rec.gq = tonumber(sums[1]) or 0, tonumber(sums[2]) or 0, tonumber(sums[3]) or 0
  local newest, w = first_of('B' .. sub_biz)
  rec.lc, rec.w = newest, math.max(rec.ow, w or 0)
  rec.a = math.max(rec.a, at)
  return conversation, put(conversation, rec, was, fresh)
end

-- Stores changed records as one event of the user's chain. moves: {c, rec, was, fresh, still (activeTs stays)} in order.
-- Each takes the next tick, not before `at`; then the gateways of those in a subBiz. Answers the event's tick, the tick
-- before it, and conversation and record in turn.
local function record_event(moves, at, event)
  local previous = tonumber(redis.call('HGET', META, 'clock'))
  local tick, changed, gateways = previous, {}, {}
  for _, move in ipairs(moves) do
    tick = math.max(tick + 1, at)
    if not move.still then move.rec.a = tick end
    changed[#changed + 1] = move.c
    changed[#changed + 1] = put(move.c, move.rec, move.was, move.fresh)
    local biz = move.rec.sb
    if biz and not move.still and not gateways[biz] then
      gateways[biz] = true
      gateways[#gateways + 1] = biz
    end
  end
  for _, biz in ipairs(gateways) do
    tick = tick + 1
    changed[#changed + 1], changed[#changed + 2] = put_gateway(biz, tick)
  end
  redis.call('HSET', META, 'clock', int(tick))
  append_log(tick, previous, event)
  return tick, previous, changed
end

-- Ends the mutes that are due, those that end at once as one change, and tells whoever listens. Loading gives them the same ticks.
local function end_mutes(epoch)
  local due, first = redis.call('ZRANGEBYSCORE', MUTES, '-inf', int(NOW), 'WITHSCORES', 'LIMIT', 0, 500), 1
  while due[first] do
    local at, moves, names = due[first + 1], {}, {}
    while due[first + 1] == at do
      local rec = get(due[first])
      moves[#moves + 1] = { c = due[first], rec = rec, was = standing(due[first], rec) }
      names[#names + 1] = '"' .. due[first] .. '"'
      rec.m, rec.mu = nil, nil
      first = first + 2
    end
    local event = '{"k":"s","r":"UNMUTE","c":[' .. table.concat(names, ',') .. ']}'
    local tick, previous, changed = record_event(moves, tonumber(at), event)
    local sessions = {}
    for j = 1, #changed, 2 do sessions[#sessions + 1] = '["' .. changed[j] .. '",' .. changed[j + 1] .. ']' end
    local frame = '{"events":[[{"k":"s","r":"UNMUTE","u":"' .. USER .. '","t":' .. int(total()) .. ',"o":['
      .. table.concat(sessions, ',') .. ']},[["' .. USER .. '","' .. epoch .. '",' .. int(tick) .. ',' .. int(previous) .. ']]]]}'
    for _, server in ipairs(routes()) do publish(server, frame) end
  end
end

-- The epoch of the loaded state as it is now, or nil.
local function loaded()
  local epoch, due = whole()
  if not epoch then return nil end
  while due and due <= NOW do
    end_mutes(epoch)
    due = tonumber(redis.call('HGET', META, 'due'))
  end
  return epoch
end
