-- Shared by every script on one user's keys: what is kept, the clock, the log, who listens, the lock.
-- KEYS[1] is the user's meta; the names of all others begin as its does, so they are in its slot: meta, sessions, index, list, mutes, log,
-- routes, pending, loading, lock, fence, queue. Naming each of them in every call takes more time than what a call does.
-- ARGV[1] is always now (ms).
--
-- meta, a hash: epoch (of this stay in Redis; absent: not loaded), clock, count, listed, timed (how many sessions, places in
-- lists and mutes that end there are), due (when the next mute ends), total (unread), held (token of who has the lock),
-- routes (of what is in that key, in turn: until when, and which server), touched (when all keys were given time to live),
-- and sums by list: n<list> valid sessions, u<list> unread, q<list> mentions.
-- sessions, a hash: conversation -> record. index, a sorted set: conversation -> activeTs. mutes: conversation -> its end.
-- list, a sorted set by name alone: "<list>\n<position>\n<conversation>", so that one key holds every list (_sessions.lua).
local TAG = string.sub(KEYS[1], 1, -5)
local META, SESSIONS, INDEX, LIST, MUTES = KEYS[1], TAG .. 'sessions', TAG .. 'index', TAG .. 'list', TAG .. 'mutes'
local LOG, ROUTES, PENDING, LOADING = TAG .. 'log', TAG .. 'routes', TAG .. 'pending', TAG .. 'loading'
local LOCK, FENCE, QUEUE = TAG .. 'lock', TAG .. 'fence', TAG .. 'queue'
local NOW = tonumber(ARGV[1])

local LOG_LENGTH = 1200
local IDLE_MS = 24 * 3600 * 1000
local TOUCHED_MS = 3600 * 1000
local GRANT_MS = 1500 -- how long who is next in the queue has to take the lock

-- Between the prefix and the tag stands the generation (store/redis/keys.py), of which channels are independent.
local PREFIX, USER = string.match(KEYS[1], '^([^/{]*)[^{]*{u:([^}]*)}:meta$')

local function int(number)
  return string.format('%.0f', number)
end

-- Gives all keys time to live, if it was long ago or one of them has come into being (`made`).
local made, touched = false, nil

local function touch()
  if not made and touched and math.abs(NOW - touched) <= TOUCHED_MS then return end
  for _, key in ipairs({ META, SESSIONS, INDEX, LIST, MUTES, LOG, ROUTES }) do redis.call('PEXPIRE', key, IDLE_MS) end
  redis.call('HSET', META, 'touched', int(NOW))
end

-- The servers that hold connections of the user. What is loaded has a copy, which a message finds with the rest.
local function routes()
  local known = redis.call('HGET', META, 'routes')
  if not known then return redis.call('ZRANGEBYSCORE', ROUTES, int(NOW), '+inf') end
  local servers = {}
  for until_ms, server in string.gmatch(known, '(%d+) (%S+)') do
    if tonumber(until_ms) >= NOW then servers[#servers + 1] = server end
  end
  return servers
end

local function copy_routes()
  redis.call('ZREMRANGEBYSCORE', ROUTES, '-inf', '(' .. int(NOW))
  local rows, known = redis.call('ZRANGE', ROUTES, 0, -1, 'WITHSCORES'), {}
  for i = 1, #rows, 2 do known[#known + 1] = rows[i + 1] .. ' ' .. rows[i] end
  redis.call('HSET', META, 'routes', table.concat(known, ' '))
end

local function publish(server, frame)
  redis.call('PUBLISH', PREFIX .. 'server:' .. server, frame)
end

-- Tells whoever listens to a state that is gone to look.
local function remind()
  for _, server in ipairs(routes()) do publish(server, '{"events":[[null,[["' .. USER .. '","",0,0]]]]}') end
end

local function forget()
  remind()
  redis.call('DEL', META, SESSIONS, INDEX, LIST, MUTES, LOG)
  made, touched = false, NOW
end

-- The epoch of the state and when its next mute ends, or nil where it isn't loaded. One of which any key was evicted is not; nor is one that somebody
-- was changing whose lock ended by itself: what they wrote to MongoDB is not known here.
local function whole()
  local meta = redis.call('HMGET', META, 'epoch', 'count', 'listed', 'timed', 'held', 'due', 'touched')
  if not meta[1] then return nil end
  if redis.call('HLEN', SESSIONS) ~= tonumber(meta[2])
    or redis.call('ZCARD', INDEX) ~= tonumber(meta[2])
    or redis.call('ZCARD', LIST) ~= tonumber(meta[3])
    or redis.call('ZCARD', MUTES) ~= tonumber(meta[4])
    or (meta[5] and redis.call('EXISTS', LOCK) == 0) then
    forget()
    return nil
  end
  touched = tonumber(meta[7])
  return meta[1], tonumber(meta[6])
end

local function total()
  return tonumber(redis.call('HGET', META, 'total')) or 0
end

-- Events form a chain: each names the tick before it, so whoever reads them sees that none is missing.
local function append_log(at, previous, event)
  local id, tick = int(at) .. '-0', int(previous)
  if redis.call('XADD', LOG, 'NOMKSTREAM', 'MAXLEN', '~', LOG_LENGTH, id, 'p', tick, 'e', event) then return end
  redis.call('XADD', LOG, id, 'p', tick, 'e', event)
  made = true
end

-- Gives the lock back, to who is next in the queue if anybody is. Queue: "<server> <owner>", oldest first.
local function release(token)
  if redis.call('GET', LOCK) ~= token then return end
  redis.call('DEL', LOCK)
  redis.call('HDEL', META, 'held')
  local next_one = redis.call('LPOP', QUEUE)
  if next_one then
    local server, owner = string.match(next_one, '^(%S+) (%S+)$')
    redis.call('SET', LOCK, owner, 'PX', GRANT_MS)
    publish(server, '{"granted":"' .. owner .. '"}')
  end
end
