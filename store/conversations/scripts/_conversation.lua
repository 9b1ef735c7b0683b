-- Shared by every script on one conversation's keys, which carry its partition's hash tag.
-- KEYS, always in this order: head, members, outbox, loading.
--
-- head, a hash: s, n (reserved so far), ls, last (newest committed message), at, w (ms: its commit, the newest
-- countable one's), k (P or G), mv (version of the membership), mc (members now), mt (members and former members in the hash;
-- absent: not loaded), j (what rarely changes: JSON), st (D: dissolved, X: dismissed) and ds (at which seq), gv (changes of the group
-- so far), pc (outbox entry of the one that is on its way: the next one waits for it).
-- members, a hash: user -> JSON {r role, i intervals [[from, to or -1], ...], j joined (ms)}.
-- outbox, a stream of the whole partition's messages that have a place: s, n, c conversation, m message (JSON), g what it
-- changes of its group (JSON); and of revisions of messages that not everybody was told of: v, with s 0 and m {}.
-- loading: who reads MongoDB; with a '+' behind where the head was there when that began.
--
-- Any of them may be evicted at any time. What has a place and is not durable is in the outbox only.
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

-- Whether the change of the group that is on its way is in the outbox, if there is one. Else nobody may be left who makes it
-- durable, and what it did to head and membership is not to be believed: they are dropped.
local function change_kept()
  local entry = redis.call('HGET', HEAD, 'pc')
  if not entry or #redis.call('XRANGE', OUTBOX, entry, entry) > 0 then return true end
  redis.call('DEL', HEAD, MEMBERS)
  return false
end

-- Whether all that a writer needs is there.
local function loaded()
  if redis.call('HEXISTS', HEAD, 's') == 0 or not change_kept() then return false end
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

-- The change of the group that is on its way, as an entry of the outbox; nil: there is none.
local function change_under_way()
  local id = redis.call('HGET', HEAD, 'pc')
  local row = id and redis.call('XRANGE', OUTBOX, id, id)[1]
  if not row then return nil end
  local entry = {}
  for i = 1, #row[2], 2 do entry[row[2][i]] = row[2][i + 1] end
  return entry
end

-- Whether a member becomes one by a change that is on its way: there is no session of theirs yet.
local function is_joining(user, m, entry)
  if not entry or m.i[#m.i][1] ~= tonumber(entry.s) then return false end
  for _, joined in ipairs(cjson.decode(entry.g)['in'] or {}) do
    if joined == user then return true end
  end
  return false
end

-- Calls take with seq, n, change (JSON, or nil) and id of each of the conversation's entries in the outbox, in the order they came.
local function each_reserved(conversation, take)
  for _, row in ipairs(redis.call('XRANGE', OUTBOX, '-', '+')) do
    local entry = {}
    for i = 1, #row[2], 2 do entry[row[2][i]] = row[2][i + 1] end
    if entry.c == conversation then take(tonumber(entry.s), tonumber(entry.n), entry.g, row[1]) end
  end
end

-- Puts the memberships that a change of the group makes into the cache.
local function put_members(change)
  for _, pair in ipairs(change.mem or {}) do
    if redis.call('HSET', MEMBERS, pair[1], pair[2]) == 1 then redis.call('HINCRBY', HEAD, 'mt', 1) end
  end
end

-- Brings head and membership to where they are after a change, unless they are there.
local function apply_change(change)
  local head = redis.call('HMGET', HEAD, 'gv', 'j')
  if (tonumber(head[1]) or 0) >= change.v then return end
  local info = cjson.decode(head[2])
  for name, value in pairs(change.set or {}) do
    if name == 'st' or name == 'ds' then
      redis.call('HSET', HEAD, name, value)
    else
      info[name] = value ~= cjson.null and value or nil
    end
  end
  redis.call('HSET', HEAD, 'gv', change.v, 'mc', change.mc, 'j', cjson.encode(info))
  redis.call('HINCRBY', HEAD, 'mv', 1)
  if members_loaded() then put_members(change) end
end
