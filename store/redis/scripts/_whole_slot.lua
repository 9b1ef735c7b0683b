-- Before every script in a cluster. While a slot is moved key by key, some of its keys are here and some there, and a script would stop at the
-- first that is not here, having changed others. Two keys that never exist tell: both here only where the slot is whole.
do
  local here = redis.pcall('EXISTS', KEYS[1] .. '!', KEYS[1] .. '!!')
  if type(here) == 'table' then return redis.error_reply('TRYAGAIN the slot is being moved') end
end
