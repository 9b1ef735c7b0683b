-- Shared by every script on one conversation's keys, which carry its partition's hash tag.
-- KEYS, always in this order: head, members, outbox, loading.
--
-- head, a hash: s, n (reserved so far), ls, last (newest committed message), at, w (ms: its commit, the newest
-- countable one's), k (P or G), st (D: dissolved), mv (version of the membership), mc (members now), mt (members and former
-- members in the hash; absent: not loaded), j (what rarely changes: JSON).
-- members, a hash: user -> JSON {r role, i intervals [[from, to or -1], ...], j joined (ms)}.
local HEAD, MEMBERS, OUTBOX, LOADING = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local IDLE_MS = 24 * 3600 * 1000

local function touch()
  redis.call('PEXPIRE', HEAD, IDLE_MS)
  redis.call('PEXPIRE', MEMBERS, IDLE_MS)
end

local function is_group()
  return redis.call('HGET', HEAD, 'k') == 'G'
end

-- Whether the whole membership of a group is there beside its head. One of which a part was evicted is dropped.
local function members_loaded()
  local total = redis.call('HGET', HEAD, 'mt')
  if not total then return false end
  if redis.call('HLEN', MEMBERS) ~= tonumber(total) then
    redis.call('DEL', MEMBERS)
    redis.call('HDEL', HEAD, 'mt')
    return false
  end
  return true
end

-- Whether all that a writer needs is there.
local function loaded()
  if redis.call('HEXISTS', HEAD, 's') == 0 then return false end
  return not is_group() or members_loaded()
end

local function member(user)
  local text = redis.call('HGET', MEMBERS, user)
  if not text then return nil end
  return cjson.decode(text)
end

local function is_current(m)
  return m ~= nil and m.i[#m.i][2] == -1
end
