-- Does a step if all rows are as it has read them, and its time is right.
-- KEYS: the rows that it has read, and then others that it writes. ARGV: the instant that
-- it has counted from, the last instant at which that may be, how many rows it has read,
-- each row as it was, empty where there was none (one that is there and empty is told as a
-- byte that is no row); and what it writes, each with a letter,
-- the number of its key, and:
--   s  text, milliseconds     it stands there for as long
--   k  text                   it stands there for as long as what stood there
--   n  number                 nothing is done unless a list has as many elements
--   r  milliseconds, element  it is behind the list
--   l  element, length, milliseconds  likewise, and the list keeps its last elements
--   e  milliseconds           it is kept for as long
--   d                         it is removed
--   w                         somebody waits for it (the mark of a record): a hint
--   p  channel                its name is published: a hint
-- Returns the time when all is done; or the time, and each row that is another.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local differs = now < tonumber(ARGV[1]) or now > tonumber(ARGV[2])
local count = tonumber(ARGV[3])
local answer = {now}
for i = 1, count do
  local text = redis.call('GET', KEYS[i])
  text = text and (text == '' and '\1' or text) or ''
  if text == ARGV[3 + i] then
    answer[1 + i] = false
  else
    differs, answer[1 + i] = true, text
  end
end
if differs then
  return answer
end
local at = 4 + count
while ARGV[at] do
  local what, key, text = ARGV[at], KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2]
  if what == 's' then
    redis.call('SET', key, text, 'PX', ARGV[at + 3])
    at = at + 4
  elseif what == 'k' then
    redis.call('SET', key, text, 'KEEPTTL')
    at = at + 3
  elseif what == 'n' then
    if redis.call('LLEN', key) ~= tonumber(text) then
      return redis.error_reply('SIDECALL messages of the conversation are missing')
    end
    at = at + 3
  elseif what == 'r' then
    redis.call('RPUSH', key, ARGV[at + 3])
    redis.call('PEXPIRE', key, text)
    at = at + 4
  elseif what == 'l' then
    -- Nothing but advice rests on a log: one that is none begins anew.
    if type(redis.pcall('RPUSH', key, text)) ~= 'number' then
      redis.pcall('DEL', key)
      redis.pcall('RPUSH', key, text)
    end
    redis.pcall('LTRIM', key, -ARGV[at + 3], -1)
    redis.pcall('PEXPIRE', key, ARGV[at + 4])
    at = at + 5
  elseif what == 'e' then
    redis.call('PEXPIRE', key, text)
    at = at + 3
  elseif what == 'd' then
    redis.call('DEL', key)
    at = at + 2
  elseif what == 'w' then
    -- A full server need not take it.
    redis.pcall('SETRANGE', key, 3, '\1')
    at = at + 2
  elseif what == 'p' then
    -- A user without the right to publish cannot give it.
    redis.pcall('PUBLISH', text, key)
    at = at + 3
  end
end
return now
