-- Notes that a subject has changed, and decides who publishes its state, and when.
-- KEYS: window (exists for an interval after the state was published), due (list of the outbox entries that the next
-- publication covers; exists while a server has said that it will publish).
-- ARGV: interval (ms), time (ms) after the end of the window in which the server that publishes has to begin, outbox
-- entries.
-- Returns 0: publish now; n: call take_window in n ms, and then publish; -1: another server will publish.
local window, due, interval_ms, lease_ms = KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[2])
local FIRST_ENTRY = 3

local is_claimed, wait_ms = redis.call('EXISTS', due) == 1, redis.call('PTTL', window)
if not is_claimed and wait_ms <= 0 then
  redis.call('SET', window, '', 'PX', interval_ms)
  return 0
end
redis.call('RPUSH', due, unpack(ARGV, FIRST_ENTRY))
if is_claimed then return -1 end
redis.call('PEXPIRE', due, wait_ms + lease_ms)
return wait_ms
