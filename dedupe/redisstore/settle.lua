-- The rows of the state machine that end a claim (Record.Settle).
-- KEYS: record, the logs to append to, the effect that it frees, where to keep an
-- output, and the tally that it adds to. ARGV: owner, epoch, state, attempts, result, retention, whether it
-- resolves, the channel on which it is published, the checksum of the result; how
-- many logs, and an entry and how many to keep for each; the counter of what is
-- spent, or nothing, and the tokens; whether it frees an effect; and output and its
-- time to live. What is not there at the end need not be said.
local SETTLED, SUPERSEDED = 1, 2
if not stored then
  return SUPERSEDED
end
local owner, epoch, to, resolves = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[7] == '1'
if holder ~= owner or not (e == epoch or epoch == 0 and to == NOT_RUN) then
  return SUPERSEDED
end
-- Whether the record may leave its state for the new one.
local may
if resolves then
  may = (to == DONE or to == NOT_RUN)
    and (state == UNKNOWN or state == CLAIMED and was == NON_IDEMPOTENT and now >= lease)
elseif state == CLAIMED then
  may = to ~= UNKNOWN or was == NON_IDEMPOTENT
else
  may = (state == UNKNOWN or state == NOT_RUN) and to == DONE
    or state == UNKNOWN and to == NOT_RUN and epoch == 0 and attempts == 0 and (e == 1 or was == NON_IDEMPOTENT)
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
elseif wordless or may then
  if counted then
    local fine = true
    if to == NOT_RUN then
      fine = charge(charges, -1)
    elseif state == NOT_RUN then
      fine = charge(charges, 1)
    end
    if not fine or spends and not tally(spends, KEYS[#KEYS]) then
      return redis.error_reply(NO_TALLY)
    end
    if spends and tally(spends).found then
      local t = tally(spends)
      t.estimated = math.min(t.estimated + ARGV[beside + 1], 2^50)
      t.moves = true
    end
  end
  store(ARGV[6], ARGV[5], to, was, 0, ARGV[4], e, started, now, 0, print, holder, name, charges, ARGV[9])
  if counted then
    move(ARGV[6])
  end
  for i = 1, logs do
    append(KEYS[1 + i], ARGV[9 + 2 * i], ARGV[10 + 2 * i], ARGV[6])
  end
  if waited == 1 then
    -- A hint, which a user without the right to publish cannot give.
    redis.pcall('PUBLISH', ARGV[8], KEYS[1])
  end
else
  return SUPERSEDED
end
local output = 2 + logs
if contended then
  free(KEYS[output])
  output = output + 1
end
if ARGV[beside + 3] then
  redis.call('SET', KEYS[output], ARGV[beside + 3], 'PX', ARGV[beside + 4])
end
return SETTLED
