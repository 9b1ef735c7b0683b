-- Runs before every script in a cluster. While a slot is moved key by key, some of its keys are on this node and some
-- on the other one. A script would fail at the first key that is not here, after it has changed others. So this part
-- looks for two keys that never exist: Redis refuses that unless the whole slot is on this node.
-- KEYS[1]: any key of the slot. Replies TRYAGAIN, having changed nothing, if the slot is being moved.
do
  local found = redis.pcall('EXISTS', KEYS[1] .. '!', KEYS[1] .. '!!')
  if type(found) == 'table' then return redis.error_reply('TRYAGAIN the slot is being moved') end
end
