-- Counts what a user did against their rate. KEYS: the rate. ARGV: microseconds that each takes to be made up for, how many.
-- The value is how far ahead (microseconds) the moment lies at which all of it will have been made up for, and when that was said (Redis's
-- own time): a clock that is set back, or a replica's that is behind, adds nothing to it. It may lie as far ahead as servers have let
-- through. Answers how far ahead it lies now.
local now = redis.call('TIME')
local at = now[1] * 1000000 + now[2]
local held, said = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
local ahead = ARGV[1] * ARGV[2]
if held then
  ahead = ahead + math.max(0, tonumber(held) - math.max(0, at - tonumber(said)))
end
redis.call('SET', KEYS[1], string.format('%.0f %.0f', ahead, at), 'PX', math.ceil(ahead / 1000))
return ahead
