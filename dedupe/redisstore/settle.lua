-- The rows of the state machine that end a claim (Record.Settle).
-- KEYS: record, and where to keep an output. ARGV: owner, epoch, state,
-- attempts, result, retention, whether it resolves, the channel on which it is
-- published, the checksum of the result, and output and its time to live.
local SETTLED, SUPERSEDED = 1, 2
if not stored then
  return SUPERSEDED
end
local owner, epoch, to, resolves = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[7] == '1'
if holder ~= owner or not (e == epoch or epoch == 0 and to == NOT_RUN) then
  return SUPERSEDED
end
-- Whether the record may leave its state for the new one.
local function may()
  if resolves then
    return (to == DONE or to == NOT_RUN)
      and (state == UNKNOWN or state == CLAIMED and was == NON_IDEMPOTENT and now >= lease)
  elseif state == CLAIMED then
    return to ~= UNKNOWN or was == NON_IDEMPOTENT
  end
  return (state == UNKNOWN or state == NOT_RUN) and to == DONE
end
-- Whether an observer made it UNKNOWN before the owner, who says what to answer.
local wordless = state == UNKNOWN and to == UNKNOWN and #stored < rest and #ARGV[5] > 0
if state == to and not wordless then
  -- Said before; DONE only counts as the same with the same result.
  if state == DONE and string.sub(stored, rest) ~= ARGV[5] then
    return SUPERSEDED
  end
  -- A byte of it is written again, as it is: from Redis 7.2 on a WAIT covers
  -- only what its own connection has written.
  redis.call('SETRANGE', KEYS[1], WAITED_AT, string.char(waited))
elseif wordless or may() then
  sum = tonumber(ARGV[9])
  store(tonumber(ARGV[6]), ARGV[5], to, was, 0, tonumber(ARGV[4]), e, started, now, 0, print, holder, name, charges)
  if waited == 1 then
    -- A hint, which a user without the right to publish cannot give.
    redis.pcall('PUBLISH', ARGV[8], KEYS[1])
  end
else
  return SUPERSEDED
end
if KEYS[2] then
  redis.call('SET', KEYS[2], ARGV[10], 'PX', ARGV[11])
end
return SETTLED
