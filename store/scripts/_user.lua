-- Shared by every script on one user's keys: the cached sessions, their indexes, the clock and the log.
-- KEYS, always in this order: meta, sessions, index, list, log, routes, pending, loading, lock, fence.
--
-- A session record is a JSON object:
--   s writeSeq   n countable messages up to s      r readSeq   rn countable up to r   d deliveredSeq
--   x deletedSeq xn countable up to x (absent: never deleted)   p priority  m muted  mu muted until (ms)
--   us unreadStatus  ca category  sb subBiz  a activeTs  w writeTs  f last readable seq of a former member
--   pr, pd how far the peer of a private conversation has read and received, pt how far this user was told so
--   g seqs up to s that may still come, as first and last of each stretch in turn (absent: none)
local META, SESSIONS, INDEX, LIST = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local LOG, ROUTES, PENDING, LOADING = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local LOCK, FENCE = KEYS[9], KEYS[10]

local LOG_LENGTH = 1200
local IDLE_MS = 24 * 3600 * 1000
local MAX_STRETCHES = 64
local PINNED = 4398046511104 -- 2^42: a priority outweighs any writeTs

local function int(number)
  return string.format('%.0f', number)
end

local function forget()
  redis.call('DEL', META, SESSIONS, INDEX, LIST, LOG)
end

-- The epoch of the loaded state, or nil. A state of which any key was evicted counts as not loaded.
local function loaded()
  local meta = redis.call('HMGET', META, 'epoch', 'count', 'listed')
  if not meta[1] then return nil end
  if redis.call('HLEN', SESSIONS) ~= tonumber(meta[2])
    or redis.call('ZCARD', INDEX) ~= tonumber(meta[2])
    or redis.call('ZCARD', LIST) ~= tonumber(meta[3]) then
    forget()
    return nil
  end
  return meta[1]
end

local function touch()
  for i = 1, 6 do redis.call('PEXPIRE', KEYS[i], IDLE_MS) end
end

-- A private conversation exists from its first message; a deleted session lives again once a countable message passed.
local function valid(conversation, rec)
  if rec.s == 0 and string.sub(conversation, 1, 2) == 'p_' then return false end
  return rec.x == nil or rec.n > rec.xn
end

local function unread(conversation, rec)
  if not valid(conversation, rec) then return 0 end
  local base = rec.rn
  if rec.xn and rec.xn > base then base = rec.xn end
  return math.max(0, rec.n - base)
end

local function counted(conversation, rec)
  if rec == nil or rec.m == 1 then return 0 end
  return unread(conversation, rec)
end

local function get(conversation)
  local text = redis.call('HGET', SESSIONS, conversation)
  if not text then return nil end
  return cjson.decode(text)
end

local function encode(rec)
  if rec.g and #rec.g == 0 then rec.g = nil end
  return cjson.encode(rec)
end

local function position(rec)
  return int(rec.p * PINNED + rec.w)
end

-- Stores a record and keeps index, list and total in step with it.
local function put(conversation, rec, before)
  local text = encode(rec)
  redis.call('HSET', SESSIONS, conversation, text)
  redis.call('ZADD', INDEX, int(rec.a), conversation)
  if valid(conversation, rec) then
    if redis.call('ZADD', LIST, position(rec), conversation) == 1 then redis.call('HINCRBY', META, 'listed', 1) end
  elseif redis.call('ZREM', LIST, conversation) == 1 then
    redis.call('HINCRBY', META, 'listed', -1)
  end
  if before == nil then redis.call('HINCRBY', META, 'count', 1) end
  return text
end

local function add_total(delta)
  if delta ~= 0 then redis.call('HINCRBY', META, 'total', int(delta)) end
end

local function total()
  return tonumber(redis.call('HGET', META, 'total')) or 0
end

-- The next tick of the user's clock, and the one before it.
local function tick(now)
  local previous = tonumber(redis.call('HGET', META, 'clock'))
  local next_tick = math.max(previous + 1, now)
  redis.call('HSET', META, 'clock', int(next_tick))
  return next_tick, previous
end

-- Events form a chain: each names the tick before it, so whoever reads them sees that none is missing.
local function append_log(at, previous, event)
  redis.call('XADD', LOG, 'MAXLEN', '~', LOG_LENGTH, int(at) .. '-0', 'p', int(previous), 'e', event)
end

local function routes(now)
  redis.call('ZREMRANGEBYSCORE', ROUTES, '-inf', '(' .. int(now))
  return redis.call('ZRANGE', ROUTES, 0, -1)
end

-- Seqs that were passed over may still come: their messages were given a place and are not durable yet.
local function remember_gap(rec, seq)
  if seq == rec.s + 1 then return end
  rec.g = rec.g or {}
  rec.g[#rec.g + 1] = rec.s + 1
  rec.g[#rec.g + 1] = seq - 1
end

-- Whether seq is one that may still come. It has come now.
local function take_gap(rec, seq)
  local stretches, kept, found = rec.g or {}, {}, false
  for i = 1, #stretches, 2 do
    local first, last = stretches[i], stretches[i + 1]
    if first <= seq and seq <= last then
      found = true
      if first < seq then
        kept[#kept + 1] = first
        kept[#kept + 1] = seq - 1
      end
      if seq < last then
        kept[#kept + 1] = seq + 1
        kept[#kept + 1] = last
      end
    else
      kept[#kept + 1] = first
      kept[#kept + 1] = last
    end
  end
  rec.g = kept
  return found
end

local function read_up_to(rec, seq, n)
  if seq > rec.r then rec.r = seq end
  if n > rec.rn then rec.rn = n end
  if seq > rec.d then rec.d = seq end
end

-- Each change takes (change, now) and answers record text, or nil where there is nothing to do,
-- and optionally what the caller wants to know of the state before.
local changes = {}

-- A committed message: c, s, n, k (1: counts as unread), o (1: the user's own), at, e (event).
function changes.message(change)
  local before = get(change.c)
  local rec = before
  if rec == nil then
    if string.sub(change.c, 1, 2) ~= 'p_' then return nil, 'unknown' end
    rec = { s = 0, n = 0, r = 0, rn = 0, d = 0, p = 0, a = 0, w = 0 }
  end
  local was = counted(change.c, before)
  -- For the sender: how many messages of others the own one makes read.
  local old = { r = rec.r, unread = math.max(0, change.n - change.k - rec.rn) }
  if change.s > rec.s then
    remember_gap(rec, change.s)
    rec.s = change.s
  elseif not take_gap(rec, change.s) then
    return nil, 'applied'
  end
  -- More than can be kept track of: begin anew, which subscribers are told, rather than lose one in silence.
  if rec.g and #rec.g > 2 * MAX_STRETCHES then return nil, 'unknown' end
  rec.n = math.max(rec.n, change.n)
  if change.k == 1 then rec.w = math.max(rec.w, change.at) end
  if change.o == 0 and string.sub(change.c, 1, 2) == 'p_' then
    -- Who wrote it has read it.
    rec.pr = math.max(rec.pr or 0, change.s)
    rec.pd = math.max(rec.pd or 0, change.s)
  end
  if change.o == 1 then
    read_up_to(rec, change.s, change.n)
    rec.us = nil
  end
  local at, previous = tick(change.at)
  rec.a = at
  append_log(at, previous, change.e)
  local text = put(change.c, rec, before)
  add_total(counted(change.c, rec) - was)
  return text, nil, at, previous, old
end

-- The user read: c, r, rn, now, e. A reader whose marks are there already changes nothing.
function changes.read(change)
  local rec = get(change.c)
  if rec == nil then return nil, 'unknown' end
  if change.r <= rec.r and not rec.us then return nil, 'applied' end
  local was = counted(change.c, rec)
  local old = { r = rec.r, unread = unread(change.c, rec) }
  read_up_to(rec, change.r, change.rn)
  rec.us = nil
  local at, previous = tick(change.now)
  rec.a = at
  append_log(at, previous, change.e)
  local text = put(change.c, rec, rec)
  add_total(counted(change.c, rec) - was)
  return text, nil, at, previous, old
end

-- Somebody else's acknowledgement reached this user, who sent what it covers: c, s, now, e, peer (1: of a private conversation).
function changes.receipt(change)
  local rec = get(change.c)
  if rec == nil then return nil, 'unknown' end
  local moved = false
  if change.peer == 1 then
    if change.s <= (rec.pt or 0) then return nil, 'applied' end
    rec.pt = change.s
    moved = change.s > (rec.pr or 0)
    rec.pr = math.max(rec.pr or 0, change.s)
    rec.pd = math.max(rec.pd or 0, change.s)
  end
  local at, previous = tick(change.now)
  if moved then rec.a = at end
  append_log(at, previous, change.e)
  return put(change.c, rec, rec), nil, at, previous
end

-- The user became a member: c, rec (the record to begin with), now, e.
function changes.join(change)
  local before = get(change.c)
  if before and before.f == nil and before.s >= change.rec.s then return nil, 'applied' end
  local rec = change.rec
  local was = counted(change.c, before)
  local at, previous = tick(change.now)
  rec.a = at
  if before then
    rec.p, rec.m, rec.mu, rec.ca = before.p, before.m, before.mu, before.ca
    rec.w = math.max(rec.w, before.w)
  end
  append_log(at, previous, change.e)
  local text = put(change.c, rec, before)
  add_total(counted(change.c, rec) - was)
  return text, nil, at, previous
end

-- Applies one change to a loaded state. The answer: status, record, tick, tick before, total, old read seq, old unread.
local function apply(kind, change)
  local text, refusal, at, previous, old = changes[kind](change)
  if refusal == 'unknown' then
    -- MongoDB holds a session that this state does not know: it is not to be trusted any further.
    forget()
    return { 'cold' }
  end
  if refusal then
    local clock = redis.call('HGET', META, 'clock')
    return { refusal, redis.call('HGET', SESSIONS, change.c), clock, clock, total(), -1, 0 }
  end
  old = old or { r = -1, unread = 0 }
  return { 'ok', text, int(at), int(previous), total(), old.r, old.unread }
end
