-- Takes down what a refused call leaves (Store.Note). KEYS: record, the logs to
-- append to, the logs to read. ARGV: how long to keep them, how many to append to,
-- the counter of a tally or nothing; an entry and how many to keep, for each.
-- Returns {now, record or nothing, tally or nothing, each log}.
local appended = tonumber(ARGV[2])
local shown = ''
if counted then
  if not tally(ARGV[3]) then
    return redis.error_reply(NO_TALLY)
  end
  shown = line(tally(ARGV[3]))
end
if not stored or state == NOT_RUN or state == CLAIMED and was ~= NON_IDEMPOTENT and now >= lease then
  for i = 1, appended do
    append(KEYS[1 + i], ARGV[2 + 2 * i], ARGV[3 + 2 * i], ARGV[1])
  end
end
local answer = {now, stored or '', shown}
for i = 2 + appended, #KEYS do
  answer[#answer + 1] = read(KEYS[i])
end
return answer
