-- Claims the loading of a head. ARGV: token, milliseconds the claim lasts, with the members (0/1).
-- Answers loaded, busy or go.
local there = redis.call('HEXISTS', HEAD, 's') == 1
if there and (ARGV[3] == '0' or loaded()) then return 'loaded' end
if redis.call('SET', LOADING, ARGV[1] .. (there and '+' or ''), 'NX', 'PX', ARGV[2]) then return 'go' end
return 'busy'
