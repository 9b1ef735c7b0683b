-- Returns the conversations that a search without named conversations covers: those in the user's session lists, and
-- followed channels. If there are more than the limit, the most recently active ones. The activity of a channel is that
-- of the user's session there.
-- ARGV: now (ms), limit, workspace (its id without 'w_'; '': no restriction), threads ('1': only threads, '0': no
-- threads, '': no restriction).
-- Returns {} if the state is not cached, { epoch } if sessions in channels are not loaded, else { epoch, 1 if there are
-- no others (else 0), conversation, ... }.
local limit, workspace, threads = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local epoch = current_epoch()
if not epoch then return {} end
local is_loaded = find_channels()
if is_loaded == nil then return {} end
if not is_loaded then return { epoch } end
local found, times, is_whole = {}, {}, true

-- Returns positions and conversations of a list in turn, newest position first. most: -1 for all.
local function read_list(list, most)
  local rows = {}
  local first, last = '[' .. list .. '\n', '(' .. list .. '\n~'
  local entries = redis.call('ZREVRANGEBYLEX', LIST, last, first, 'LIMIT', 0, most)
  for _, entry in ipairs(entries) do
    local position, conversation = string.match(entry, '^[^\n]*\n(%d+)\n(.*)$')
    rows[#rows + 1], rows[#rows + 2] = tonumber(position), conversation
  end
  if most >= 0 and #entries == most then is_whole = false end
  return rows
end

local function add(conversation, time)
  found[#found + 1] = conversation
  times[conversation] = time
end

if threads ~= '1' and workspace == '' then
  local main = read_list('m', limit + 1)
  for i = 1, #main, 2 do
    local position, conversation = main[i], main[i + 1]
    if not is_gateway(conversation) then
      add(conversation, position % PRIORITY_WEIGHT)
    elseif conversation ~= 'b_' .. THREADS then
      local inside = read_list('B' .. string.sub(conversation, 3), limit + 1)
      for j = 1, #inside, 2 do add(inside[j + 1], inside[j]) end
    end
  end
end
if threads ~= '0' then
  local inside = read_list('B' .. THREADS, workspace == '' and limit + 1 or -1)
  for i = 1, #inside, 2 do
    if workspace == '' or string.match(inside[i + 1], '^t_%d+_c_([^.]*)') == workspace then
      add(inside[i + 1], inside[i])
    end
  end
end
if threads ~= '1' then
  local first = FOLLOWED .. workspace .. (workspace == '' and '' or '\n')
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', TAG .. 'channel_list', '[' .. first, '(' .. first .. '~')) do
    add(string.match(entry, '^[^\n]*\n%d+\n(.*)$'))
  end
end
if #found > limit then
  is_whole = false
  for _, conversation in ipairs(found) do
    times[conversation] = times[conversation] or tonumber(redis.call('ZSCORE', TAG .. 'channel_index', conversation))
  end
  table.sort(found, function(one, other)
    if times[one] ~= times[other] then return times[one] > times[other] end
    return one < other
  end)
end
local answer = { epoch, is_whole and 1 or 0 }
for i = 1, math.min(limit, #found) do answer[i + 2] = found[i] end
touch()
return answer
