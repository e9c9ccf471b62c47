-- What a call draws from the tally of its prompt.
local draw, shown
if drawn then
  -- The tally as it is now, for an answer.
  function shown()
    local t = tally(drawn)
    return t.line or line(t)
  end
  -- Applies a draw (Tally.Draw): returns the ceiling that stands in the way. What it
  -- changes of the tally is stored by whoever claims.
  function draw(t, add)
    local tokens, most_calls, most_tokens, longest = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
    local CALLS_CEILING, TOKENS_CEILING, AGE_CEILING, TOKENS_SHRANK = 1, 2, 3, 4
    if tokens > 0 and tokens < t.reported then
      return TOKENS_SHRANK
    end
    if tokens > t.reported then
      t.reported, t.estimated = tokens, 0
    end
    if longest > 0 and t.since > 0 and now - t.since > longest then
      return AGE_CEILING
    elseif most_tokens > 0 and t.reported + t.estimated >= most_tokens then
      return TOKENS_CEILING
    elseif most_calls > 0 and add > 0 and t.calls + add > most_calls then
      return CALLS_CEILING
    end
    return 0
  end
end
