-- Makes a revised message visible to readers: in the head, if it is the newest one, and in what servers keep.
-- Servers may call this in any order: a message is only replaced by a newer form of it.
-- ARGV: seq, message (JSON) as it is stored now, time of the revision (ms; 0: sessions do not move), recalled replies
-- of the thread (0: it is no thread, or none was recalled).
-- Returns 1, or 0 if the head is not cached or has another newest message.
local seq, message, at_ms, recalled_count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

if redis.call('HEXISTS', HEAD, HEAD_SEQ) == 0 then
  -- The server that loads it may have read MongoDB before the revision: it has to read again.
  redis.call('DEL', LOADING)
  return 0
end
change_contents_version()
if recalled_count > (tonumber(redis.call('HGET', HEAD, HEAD_RECALLED)) or 0) then
  redis.call('HSET', HEAD, HEAD_RECALLED, recalled_count)
end
local head = redis.call('HMGET', HEAD, HEAD_NEWEST_SEQ, HEAD_NEWEST, HEAD_MOVED_AT)
local newest_seq, newest, moved_at_ms = tonumber(head[1]), head[2], tonumber(head[3])
if newest_seq ~= seq or not newest then return 0 end
local old, new = cjson.decode(newest), cjson.decode(message)
local function embeds_version(of) return of[MESSAGE_EMBEDS] and of[MESSAGE_EMBEDS][EMBEDS_VERSION] or 0 end
-- MongoDB orders the changes of a message, and none of these numbers goes down.
local is_newer = new[MESSAGE_RECALLED_AT]
  or (new[MESSAGE_EDITS] or 0) > (old[MESSAGE_EDITS] or 0)
  or (new[MESSAGE_PIN_CHANGES] or 0) > (old[MESSAGE_PIN_CHANGES] or 0)
  or (new[MESSAGE_REACTIONS_VERSION] or 0) > (old[MESSAGE_REACTIONS_VERSION] or 0)
  or embeds_version(new) > embeds_version(old)
if old[MESSAGE_HAS_THREAD] and not new[MESSAGE_HAS_THREAD] then message = with_thread(message) end
if not old[MESSAGE_RECALLED_AT] and is_newer then redis.call('HSET', HEAD, HEAD_NEWEST, message) end
if at_ms > moved_at_ms then redis.call('HSET', HEAD, HEAD_MOVED_AT, ARGV[3]) end
touch()
return 1
