-- Does a step if all rows are as it has read them, and its time is right.
-- KEYS: the rows that it has read, and then others. ARGV: a plan; each row that was read as
-- it was, empty where there was none (one that is there and empty is told as a byte that is
-- no row); and each text that the plan takes. The plan: the instant that the step has
-- counted from (8 bytes), how many rows it has read (2), and what it does, each with a
-- letter, which is large where it takes a text, the number of its key (2) and a number, in
-- digits, as commands take it, with how many there are (1) before them:
--   S  the text stands there for so many milliseconds; for 0, for as long as what stood there;
--      nothing does if it is empty
--   T  the text stands there for so many milliseconds, with the time behind it, twice
--   n  nothing is done unless a list has so many elements
--   R  the text is behind the list
--   e  it is kept for so many milliseconds
--   L  the text is behind a log (dedupe/log.go), which is kept for so many milliseconds
--   w  somebody waits for it (the mark of a record): a hint
--   P  its name is published on the channel that is the text: a hint
--   g  what stands there is told, nothing where it is no text; an error then if it is not 0
--   I  a call is found by its terms there, for so many milliseconds at least; the text is what
--      index.go says
--   X  it is not any more
--   Q  nothing is told, and then of so many indexes from that on, if there are any, the first
--      elements in order of each, and nothing; the text says how many of each at the most (2), and between which bounds:
--      the length of one (2), both
--   M  elements of a list from that number on are told, at least one, and as many as have
--      no more bytes than the text says; none for 0
-- Returns the time when all is done, and what is told; or the time, and each row that is
-- another.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local plan, keys, args = ARGV[1], KEYS, ARGV
local from, count, at = struct.unpack('>I8I2', plan)
local answer = now < from and {now} -- it was set back
for i = 1, count do
  local text = redis.call('GET', keys[i])
  text = text and (text == '' and '\1' or text) or ''
  if text ~= args[1 + i] then
    answer = answer or {now}
    answer[1 + i] = text
  end
end
if answer then
  for i = 1, count do
    answer[1 + i] = answer[1 + i] or false
  end
  return answer
end
local next, told = 1 + count, nil
while at <= #plan do
  local what, number, amount, text
  what, number, amount, at = struct.unpack('>c1I2Bc0', plan, at)
  local key = keys[number]
  if string.byte(what) < 97 then
    next = next + 1
    text = args[next]
  end
  if what == 'T' then
    redis.call('SET', key, text .. struct.pack('>I8I8', now, now), 'PX', amount)
  elseif what == 'S' and text == '' then
    redis.call('DEL', key)
  elseif what == 'S' and amount == '0' then
    redis.call('SET', key, text, 'KEEPTTL')
  elseif what == 'S' then
    redis.call('SET', key, text, 'PX', amount)
  elseif what == 'L' then
    -- Nothing but advice rests on a log: one that is none begins anew, as does one whose
    -- latest entry is not found where it was written. It is cut now and then, by who finds
    -- it much longer than what counts of it.
    local size = redis.pcall('APPEND', key, text)
    if type(size) ~= 'number' then
      redis.pcall('SET', key, text)
    elseif size > 2 * #text * string.byte(text) then
      local log, starts, place = redis.call('GET', key), {}, 1
      while place + 2 <= #log do
        starts[#starts + 1] = place
        place = place + 3 + struct.unpack('>I2', log, place + 1)
      end
      local whole = starts[#starts] == #log - #text + 1
      redis.pcall('SET', key, whole and string.sub(log, starts[math.max(1, #starts + 1 - string.byte(text))]) or text)
    end
    redis.pcall('PEXPIRE', key, amount)
  elseif what == 'g' then
    text = redis.pcall('GET', key)
    if type(text) == 'table' and amount ~= '0' then
      return text
    end
    told = told or {}
    told[#told + 1] = type(text) == 'string' and text or ''
  elseif what == 'n' then
    if redis.call('LLEN', key) ~= tonumber(amount) then
      return redis.error_reply('SIDECALL messages of the conversation are missing')
    end
  elseif what == 'R' then
    redis.call('RPUSH', key, text)
  elseif what == 'e' then
    redis.call('PEXPIRE', key, amount)
  elseif what == 'M' then
    local left, before = tonumber(text), #told
    while left > 0 do
      local page = redis.call('LRANGE', key, amount, amount + 7)
      for _, message in ipairs(page) do
        left = left - #message
        if left >= 0 or #told == before then
          told[#told + 1] = message
        end
      end
      left, amount = #page == 8 and left or 0, amount + 8
    end
  elseif what == 'I' or what == 'X' then
    local since, terms, place = struct.unpack('>I6B', text)
    local call = struct.pack('>I6', 2^48 - 1 - (since == 0 and now or since)) .. string.sub(text, place + 16 * terms)
    local entries = {}
    for i = 1, terms do
      if what == 'I' then
        entries[#entries + 1] = '0' -- the score
      end
      entries[#entries + 1] = string.sub(text, place, place + 15) .. call
      place = place + 16
    end
    if what == 'X' then
      redis.call('ZREM', key, unpack(entries))
    else
      redis.call('ZADD', key, unpack(entries))
      if redis.call('PEXPIRE', key, amount, 'GT') == 0 then -- or it has no end yet
        redis.call('PEXPIRE', key, amount, 'NX')
      end
    end
  elseif what == 'Q' then
    local most, size, place = struct.unpack('>I2I2', text)
    local low, high = string.sub(text, place, place + size - 1), string.sub(text, place + size)
    local last = number + amount - 1
    told = told or {}
    told[#told + 1] = ''
    for i = redis.call('EXISTS', unpack(keys, number, last)) > 0 and number or last + 1, last do
      for _, entry in ipairs(redis.call('ZRANGEBYLEX', keys[i], low, high, 'LIMIT', 0, most)) do
        told[#told + 1] = entry
      end
      told[#told + 1] = ''
    end
  elseif what == 'w' then
    -- A full server need not take it.
    redis.pcall('SETRANGE', key, 3, '\1')
  elseif what == 'P' then
    -- A user without the right to publish cannot give it.
    redis.pcall('PUBLISH', text, key)
  end
end
return told and {now, told} or now
