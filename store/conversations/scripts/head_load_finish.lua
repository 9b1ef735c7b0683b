-- Stores a head, and its members if they were read, from MongoDB, and with them what the outbox holds of messages that MongoDB
-- does not: their places are given, and what they change has changed. A head that is there already stays: it may be ahead.
-- ARGV: token, with the members (0/1), conversation, changes of the group in MongoDB, number of head fields, field and value in turn,
-- then user and member in turn. Answers 1, or 0 where the claim was lost (load again).
local claim = redis.call('GET', LOADING)
local there = redis.call('HEXISTS', HEAD, 's') == 1
if claim ~= ARGV[1] and claim ~= ARGV[1] .. '+' then return 0 end
redis.call('DEL', LOADING)
-- Messages became durable while the head was there, after MongoDB was read; now it is gone, and what was read is too old.
if claim ~= ARGV[1] and not there then return 0 end
local durable, fields = tonumber(ARGV[4]), tonumber(ARGV[5])
if not there then
  redis.call('DEL', HEAD)
  for i = 1, fields do redis.call('HSET', HEAD, ARGV[4 + 2 * i], ARGV[5 + 2 * i]) end
  local head = redis.call('HMGET', HEAD, 's', 'n')
  local stored, s, n = tonumber(head[1]), tonumber(head[1]), tonumber(head[2])
  each_reserved(ARGV[3], function(seq, upto)
    -- What lies below is durable by now, or another message is there and this one takes another place.
    if seq > stored then s, n = math.max(s, seq), math.max(n, upto) end
  end)
  redis.call('HSET', HEAD, 's', s, 'n', n)
end
if ARGV[2] == '1' then
  redis.call('DEL', MEMBERS)
  local total = 0
  for i = 6 + 2 * fields, #ARGV, 2 do total = total + redis.call('HSET', MEMBERS, ARGV[i], ARGV[i + 1]) end
  redis.call('HSET', HEAD, 'mt', total)
  redis.call('HINCRBY', HEAD, 'mv', 1)
end
if not there or ARGV[2] == '1' then
  each_reserved(ARGV[3], function(_, _, text, entry)
    local change = text and cjson.decode(text)
    if change and change.v > durable then
      apply_change(change)
      if members_loaded() then put_members(change) end
      redis.call('HSET', HEAD, 'pc', entry)
    end
  end)
end
touch()
return 1
