-- Stores a head, and its members if they were read, from MongoDB, and with them what the outbox holds of messages that MongoDB
-- does not: their places are given, and who joins with them has joined. A head that is there already stays: it may be ahead.
-- ARGV: token, with the members (0/1), conversation, number of head fields, field and value in turn, then user and member
-- in turn. Answers 1, or 0 where the claim was lost (load again).
local claim = redis.call('GET', LOADING)
local there = redis.call('HEXISTS', HEAD, 's') == 1
if claim ~= ARGV[1] and claim ~= ARGV[1] .. '+' then return 0 end
redis.call('DEL', LOADING)
-- Messages became durable while the head was there, after MongoDB was read; now it is gone, and what was read is too old.
if claim ~= ARGV[1] and not there then return 0 end
local fields = tonumber(ARGV[4])
if not there then
  redis.call('DEL', HEAD)
  for i = 1, fields do redis.call('HSET', HEAD, ARGV[3 + 2 * i], ARGV[4 + 2 * i]) end
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
  for i = 5 + 2 * fields, #ARGV, 2 do redis.call('HSET', MEMBERS, ARGV[i], ARGV[i + 1]) end
  each_reserved(ARGV[3], function(seq, _, message)
    for _, joined in ipairs(cjson.decode(message).join or {}) do
      local m, was = cjson.decode(joined[2]), member(joined[1])
      m.i[#m.i][1] = seq
      if was == nil or was.i[#was.i][1] < seq then redis.call('HSET', MEMBERS, joined[1], cjson.encode(m)) end
    end
  end)
  local current = 0
  local texts = redis.call('HVALS', MEMBERS)
  for _, text in ipairs(texts) do
    if is_current(cjson.decode(text)) then current = current + 1 end
  end
  redis.call('HSET', HEAD, 'mt', #texts, 'mc', current)
  redis.call('HINCRBY', HEAD, 'mv', 1)
end
touch()
return 1
