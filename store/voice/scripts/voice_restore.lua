-- Compares states that a server remembers with those in Redis, and writes them again if Redis has lost them.
-- ARGV: now (ms), workspace, then for each state: user, id of the hash in which it was, the state.
-- Returns { id of the hash, then for each the present state or '' and the answer of `replace_state` if it was written
-- again, else {} }.
local FIRST, VALUES = 3, 3

local id = redis.call('HGET', VOICE, 'id') or ''
local answer = {}
for i = FIRST, #ARGV, VALUES do
  local user, known_id, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local present, change = find_state(user), {}
  if known_id ~= id then
    local remembered = parse_state(text)
    local earlier = tonumber(redis.call('HGET', VOICE, 'r ' .. user))
    -- Two servers may remember states of a user: the later one counts, and one of after the loss before both.
    if not present or (earlier and earlier < tonumber(remembered.version)) then
      local version = remembered.version
      remembered.version = present and present.version or '0'
      change = replace_state(user, present, remembered)
      redis.call('HSET', VOICE, 'r ' .. user, version)
      present = find_state(user)
    end
  end
  answer[#answer + 1] = present and format_state(present) or ''
  answer[#answer + 1] = change
end
if id ~= '' then redis.call('PEXPIRE', VOICE, CLOCK_IDLE_MS) end
return { redis.call('HGET', VOICE, 'id') or '', unpack(answer) }
