-- Raises the policy version of the heads of channels, after it was raised in MongoDB. A head that is being loaded is
-- read from MongoDB again. In a cluster, all of them are on one node as far as the caller knows.
-- KEYS[1]: the head of one of the channels.
-- ARGV: policy version, then for each channel in turn the keys of its head and of its load (_conversation.lua).
-- Returns the positions, from 0, of channels whose slot is not, or not completely, on this node: nothing was done
-- there.
local version = ARGV[1]
local FIRST_CHANNEL = 2
local elsewhere = {}

for i = FIRST_CHANNEL, #ARGV, 2 do
  local head, loading = ARGV[i], ARGV[i + 1]
  if is_whole_slot(head) then
    local found = redis.call('HMGET', head, HEAD_SEQ, HEAD_POLICY_VERSION)
    if found[1] and (tonumber(found[2]) or 0) < tonumber(version) then
      redis.call('HSET', head, HEAD_POLICY_VERSION, version)
    end
    redis.call('DEL', loading)
  else
    elsewhere[#elsewhere + 1] = (i - FIRST_CHANNEL) / 2
  end
end
return elsewhere
