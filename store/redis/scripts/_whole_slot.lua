-- While a slot is moved key by key, some of its keys are on this node and some on the other one. A script would fail at
-- the first key that is not here, after it has changed others. So it first looks for two keys that never exist: Redis
-- refuses that unless the whole slot is on this node.
local function is_whole_slot(key)
  return type(redis.pcall('EXISTS', key .. '!', key .. '!!')) ~= 'table'
end
