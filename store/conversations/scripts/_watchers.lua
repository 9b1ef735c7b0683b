-- Functions on the watchers of one conversation: users who look at it, and get its events on their own clocks.
-- KEYS[1], WATCHERS: sorted set, user by the time until which they certainly look (ms).
-- KEYS[2], WATCHING: hash, user -> "<epoch> <tick>": their clock when they began (absent: not known yet); and
-- "" -> token: another one each time that the set begins again, because it was empty or Redis has lost it.
-- ARGV[1] is always the current time, ms.
--
-- A user is a watcher as long as they are in the set, whatever the time is: only these scripts remove them. So a user
-- who is found in it under the same token has missed no event, also if the clocks of servers differ.
local WATCHERS, WATCHING, NOW = KEYS[1], KEYS[2], tonumber(ARGV[1])
local TOKEN = ''
local KEPT_MS = 3600 * 1000
local MOST_AT_ONCE = 1000

local function remove_expired()
  local gone = redis.call('ZRANGEBYSCORE', WATCHERS, '-inf', '(' .. ARGV[1], 'LIMIT', 0, MOST_AT_ONCE)
  if #gone == 0 then return end
  redis.call('ZREM', WATCHERS, unpack(gone))
  redis.call('HDEL', WATCHING, unpack(gone))
end

-- Returns the token of the set, or nil if there is none: its keys were evicted, or all watchers have gone.
local function find_token()
  if redis.call('EXISTS', WATCHERS) == 0 then return nil end
  return redis.call('HGET', WATCHING, TOKEN) or nil
end

-- Extends the time of a watcher, or makes a user one.
local function keep_watching(user, until_ms)
  redis.call('ZADD', WATCHERS, 'GT', until_ms, user)
  local kept_ms = math.max(tonumber(until_ms) - NOW, 0) + KEPT_MS
  redis.call('PEXPIRE', WATCHERS, kept_ms)
  redis.call('PEXPIRE', WATCHING, kept_ms)
end
