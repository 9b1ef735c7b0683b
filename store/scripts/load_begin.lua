-- Claims the loading of a user's state. ARGV: token, milliseconds the claim lasts.
-- Answers loaded, busy (somebody else is at it) or go.
if loaded() then return 'loaded' end
if redis.call('SET', LOADING, ARGV[1], 'NX', 'PX', ARGV[2]) then
  redis.call('DEL', PENDING)
  return 'go'
end
return 'busy'
