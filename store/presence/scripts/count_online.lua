-- Counts the members in the sets of several servers, each member once.
-- KEYS: the sets. ARGV: largest number of members that are all compared, number of members that are compared otherwise.
-- Returns the number: exact, or else an estimate from a sample of each set.
local total = 0
for _, key in ipairs(KEYS) do total = total + redis.call('ZCARD', key) end
local most, sample = tonumber(ARGV[1]), tonumber(ARGV[2])
local count = 0
for _, key in ipairs(KEYS) do
  local size = redis.call('ZCARD', key)
  if size > 0 then
    local members
    if total <= most then
      members = redis.call('ZRANGE', key, 0, -1)
    else
      members = redis.call('ZRANDMEMBER', key, sample)
    end
    -- A member of k sets counts as 1 / k in each of them.
    local shares = 0
    for _, member in ipairs(members) do
      local sets = 1
      for _, other in ipairs(KEYS) do
        if other ~= key and redis.call('ZSCORE', other, member) then sets = sets + 1 end
      end
      shares = shares + 1 / sets
    end
    count = count + shares * size / #members
  end
end
return math.floor(count + 0.5)
