-- Appends to a conversation (Store.WriteConversation). KEYS: head, messages, the record
-- of each call that it closes. ARGV: the head that it follows or nothing, the head after
-- it, how many messages there are, how long to keep all of it; for each call its record
-- or nothing, the one after it, and how long to keep that; each message. Returns 1 when
-- it is written, 0 when the head or a record is another.
local head = redis.call('GET', KEYS[1]) or ''
if head == ARGV[2] then
  -- Its time is written again: from Redis 7.2 on a WAIT covers only what its own
  -- connection has written, and this may be another than that which wrote it first.
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
  return 1
end
if head ~= ARGV[1] then
  return 0
end
for i = 3, #KEYS do
  if (redis.call('GET', KEYS[i]) or '') ~= ARGV[3 * i - 4] then
    return 0
  end
end
if head == '' then -- messages without one are of a conversation that has expired
  redis.call('DEL', KEYS[2])
end
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[3]) then
  return redis.error_reply('SIDECALL messages of the conversation are missing')
end
for i = 3, #KEYS do
  redis.call('SET', KEYS[i], ARGV[3 * i - 3], 'PX', ARGV[3 * i - 2])
end
for i = 3 * #KEYS - 1, #ARGV do
  redis.call('RPUSH', KEYS[2], ARGV[i])
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
