-- Returns voice states of a workspace.
-- ARGV: now (ms), workspace, then channels; none: all.
-- Returns { id of the hash or '', policy version under which all were judged or '', present policy version or '', user,
-- state, ... }.
local FIRST = 3

local header = redis.call('HMGET', VOICE, 'id', 'judged')
local answer = { header[1] or '', header[2] or '', redis.call('HGET', META, 'pv') or '' }
if answer[1] == '' then return answer end
local wanted = #ARGV < FIRST
local channels = {}
for i = FIRST, #ARGV do
  if redis.call('HEXISTS', VOICE, 'n ' .. ARGV[i]) == 1 then
    wanted = true
    channels[ARGV[i]] = true
  end
end
if not wanted then return answer end
local rows = redis.call('HGETALL', VOICE)
for i = 1, #rows, 2 do
  local user = string.match(rows[i], '^u (.*)$')
  if user and (#ARGV < FIRST or channels[string.match(rows[i + 1], '^%S+')]) then
    answer[#answer + 1] = user
    answer[#answer + 1] = rows[i + 1]
  end
end
return answer
