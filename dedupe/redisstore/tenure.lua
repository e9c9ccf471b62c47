-- Applies a bid to the tenure of an instance (Tenure.Bid). KEYS: tenure. ARGV:
-- token, number, time to live, how long to keep it, the token and the renewals of
-- one that is over, whether it resigns, who, whether
-- it only looks. Returns {standing, after, before}; the
-- last is missing when there was none.
--
-- A tenure is one line, for whoever looks at it: its number, its renewals, its end
-- in milliseconds since 1970 (0: given up), its token, and who holds it.
local FOUNDED, HOLDING, SUCCEEDED, OCCUPIED = 1, 2, 3, 4
local token, number, ttl, keep = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local before = redis.call('GET', KEYS[1])
local standing, renewals = FOUNDED, 0
if before then
  local n, renewed, ends, holder = string.match(before, '^(%d+) (%d+) (%d+) (%w+) ')
  if not n then
    return redis.error_reply('SIDECALL the tenure of an instance cannot be what was written')
  end
  if holder == token then
    standing, number, renewals = HOLDING, tonumber(n), tonumber(renewed) + 1
  elseif number ~= 0 or ARGV[7] == '1' or (tonumber(ends) ~= 0 and (now < tonumber(ends) or ARGV[9] == '1') and not (holder == ARGV[5] and renewed == ARGV[6])) then
    return {OCCUPIED, before, before}
  else
    standing, number = SUCCEEDED, math.max(tonumber(n) + 1, now)
  end
elseif number == 0 then
  number = now
end
local ends = ARGV[7] == '1' and 0 or now + ttl
local after = string.format('%.0f %.0f %.0f %s %s', number, renewals, ends, token, ARGV[8])
redis.call('SET', KEYS[1], after, 'PX', keep)
return {standing, after, before}
