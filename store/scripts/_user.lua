-- Shared by every script on one user's keys: what is kept, the clock, the log, who listens, the lock.
-- KEYS, always in this order: meta, sessions, index, list, mutes, log, routes, pending, loading, lock, fence, queue.
-- ARGV[1] is always now (ms).
--
-- meta, a hash: epoch (of this stay in Redis; absent: not loaded), clock, count, listed, timed (how many sessions, places in
-- lists and mutes that end there are), due (when the next mute ends), total (unread), held (token of who has the lock),
-- routed (until when a server listens, if any does), touched (when all keys were given time to live), and sums by list: n<list> valid sessions, u<list> unread, q<list> mentions.
-- sessions, a hash: conversation -> record. index, a sorted set: conversation -> activeTs. mutes: conversation -> its end.
-- list, a sorted set by name alone: "<list>\n<position>\n<conversation>", so that one key holds every list (_sessions.lua).
local META, SESSIONS, INDEX, LIST, MUTES, LOG = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local ROUTES, PENDING, LOADING = KEYS[7], KEYS[8], KEYS[9]
local LOCK, FENCE, QUEUE = KEYS[10], KEYS[11], KEYS[12]
local NOW = tonumber(ARGV[1])

local LOG_LENGTH = 1200
local IDLE_MS = 24 * 3600 * 1000
local GRANT_MS = 1500 -- how long who is next in the queue has to take the lock

local PREFIX, USER = string.match(KEYS[1], '^(.*){u:([^}]*)}:meta$')

local function int(number)
  return string.format('%.0f', number)
end

local function touch()
  for i = 1, 7 do redis.call('PEXPIRE', KEYS[i], IDLE_MS) end
  redis.call('HSET', META, 'touched', int(NOW))
end

-- The servers that hold connections of the user. '*', all, where that was known and is lost.
local function routes()
  redis.call('ZREMRANGEBYSCORE', ROUTES, '-inf', '(' .. int(NOW))
  local servers = redis.call('ZRANGE', ROUTES, 0, -1)
  if #servers == 0 and (tonumber(redis.call('HGET', META, 'routed')) or 0) > NOW then return { '*' } end
  return servers
end

local function publish(server, frame)
  redis.call('PUBLISH', PREFIX .. (server == '*' and 'servers' or 'server:' .. server), frame)
end

-- Tells whoever listens to a state that is gone to look.
local function remind()
  for _, server in ipairs(routes()) do publish(server, '{"events":[[null,[["' .. USER .. '","",0,0]]]]}') end
end

local function forget()
  remind()
  redis.call('DEL', META, SESSIONS, INDEX, LIST, MUTES, LOG)
end

-- The epoch of the state and when its next mute ends, or nil where it isn't loaded. One of which any key was evicted is not; nor is one that somebody
-- was changing whose lock ended by itself: what they wrote to MongoDB is not known here.
local function whole()
  local meta = redis.call('HMGET', META, 'epoch', 'count', 'listed', 'timed', 'held', 'due')
  if not meta[1] then return nil end
  if redis.call('HLEN', SESSIONS) ~= tonumber(meta[2])
    or redis.call('ZCARD', INDEX) ~= tonumber(meta[2])
    or redis.call('ZCARD', LIST) ~= tonumber(meta[3])
    or redis.call('ZCARD', MUTES) ~= tonumber(meta[4])
    or (meta[5] and redis.call('EXISTS', LOCK) == 0) then
    forget()
    return nil
  end
  return meta[1], tonumber(meta[6])
end

local function total()
  return tonumber(redis.call('HGET', META, 'total')) or 0
end

-- Events form a chain: each names the tick before it, so whoever reads them sees that none is missing.
local function append_log(at, previous, event)
  redis.call('XADD', LOG, 'MAXLEN', '~', LOG_LENGTH, int(at) .. '-0', 'p', int(previous), 'e', event)
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
