-- Reads a conversation (Store.ReadConversation). KEYS: head, messages. ARGV: the message
-- to begin with, and the most bytes of messages, of which the first may have more.
-- Returns {now, head, each message}, or {now} alone.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local head = redis.call('GET', KEYS[1])
if not head then
  return {now}
end
local answer, from, room = {now, head}, tonumber(ARGV[1]), tonumber(ARGV[2])
local some = 8
while room > 0 do
  local page = redis.call('LRANGE', KEYS[2], from, from + some - 1)
  for _, message in ipairs(page) do
    room = room - #message
    if room < 0 and #answer > 2 then
      return answer
    end
    answer[#answer + 1] = message
  end
  if #page < some then
    return answer
  end
  from = from + some
end
return answer
