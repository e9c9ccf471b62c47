-- Does a step if all rows are as it has read them, and its time is right.
-- KEYS: the rows that it has read, and then others that it writes. ARGV: a plan; each row
-- that was read as it was, empty where there was none (one that is there and empty is told
-- as a byte that is no row); and each text that is written. The plan: the instant that the
-- step has counted from (8 bytes), how many rows it has read (2), and what it writes, each
-- with a letter, the number of its key (2)
-- and a number (8):
--   s  a text stands there for so many milliseconds
--   t  likewise, with the time behind it, twice
--   k  a text stands there for as long as what stood there
--   d  nothing stands there
--   n  nothing is done unless a list has so many elements
--   r  a text is behind the list
--   e  it is kept for so many milliseconds
--   l  a text is behind a log (dedupe/log.go), which is kept for so many milliseconds
--   w  somebody waits for it (the mark of a record): a hint
--   p  its name is published on the channel that is a text: a hint
-- Returns the time when all is done; or the time, and each row that is another.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local plan, keys, args = ARGV[1], KEYS, ARGV
local from, count, at = struct.unpack('>I8I2', plan)
local differs = now < from -- it was set back
local answer = {now}
for i = 1, count do
  local text = redis.call('GET', keys[i])
  text = text and (text == '' and '\1' or text) or ''
  if text == args[1 + i] then
    answer[1 + i] = false
  else
    differs, answer[1 + i] = true, text
  end
end
if differs then
  return answer
end
-- A log whose latest entry is not found where it was written is none.
local function trimmed(log, latest)
  local starts, place = {}, 1
  while place + 2 <= #log do
    starts[#starts + 1] = place
    place = place + 3 + struct.unpack('>I2', log, place + 1)
  end
  if starts[#starts] ~= #log - #latest + 1 then
    return latest
  end
  return string.sub(log, starts[math.max(1, #starts + 1 - string.byte(latest))])
end
local next = 2 + count
while at <= #plan do
  local what, number, amount
  what, number, amount, at = struct.unpack('>c1I2I8', plan, at)
  local key = keys[number]
  if what == 't' then
    redis.call('SET', key, args[next] .. struct.pack('>I8I8', now, now), 'PX', amount)
    next = next + 1
  elseif what == 's' then
    redis.call('SET', key, args[next], 'PX', amount)
    next = next + 1
  elseif what == 'l' then
    -- Nothing but advice rests on a log: one that is none begins anew. It is cut now and
    -- then, by who finds it much longer than what counts of it.
    local text = args[next]
    local size = redis.pcall('APPEND', key, text)
    if type(size) ~= 'number' then
      redis.pcall('SET', key, text)
    elseif size > 2 * #text * string.byte(text) then
      redis.pcall('SET', key, trimmed(redis.call('GET', key), text))
    end
    redis.pcall('PEXPIRE', key, amount)
    next = next + 1
  elseif what == 'k' then
    redis.call('SET', key, args[next], 'KEEPTTL')
    next = next + 1
  elseif what == 'd' then
    redis.call('DEL', key)
  elseif what == 'n' then
    if redis.call('LLEN', key) ~= amount then
      return redis.error_reply('SIDECALL messages of the conversation are missing')
    end
  elseif what == 'r' then
    redis.call('RPUSH', key, args[next])
    next = next + 1
  elseif what == 'e' then
    redis.call('PEXPIRE', key, amount)
  elseif what == 'w' then
    -- A full server need not take it.
    redis.pcall('SETRANGE', key, 3, '\1')
  elseif what == 'p' then
    -- A user without the right to publish cannot give it.
    redis.pcall('PUBLISH', args[next], key)
    next = next + 1
  end
end
return now
