-- Applies a draw (Tally.Draw): returns the ceiling that stands in the way. What it
-- changes of the tally is stored by whoever claims.
local function draw(t, add)
  local tokens, most_calls, most_tokens, longest = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
  local CALLS_CEILING, TOKENS_CEILING, AGE_CEILING, TOKENS_SHRANK = 1, 2, 3, 4
  if tokens > 0 and tokens < t[REPORTED] then
    return TOKENS_SHRANK
  end
  if tokens > t[REPORTED] then
    t[REPORTED], t[ESTIMATED] = tokens, 0
  end
  if longest > 0 and t[STARTED] > 0 and now - t[STARTED] > longest then
    return AGE_CEILING
  elseif most_tokens > 0 and t[REPORTED] + t[ESTIMATED] >= most_tokens then
    return TOKENS_CEILING
  elseif most_calls > 0 and add > 0 and t[CALLS] + add > most_calls then
    return CALLS_CEILING
  end
  return 0
end
