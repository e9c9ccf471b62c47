-- The rows of the state machine that begin with a request (Record.Admit).
-- KEYS: record, logs to read; with an effect its key, with a draw that of its tally.
-- ARGV: owner, tool, effect, fingerprint, lease, retention, charges; with a draw its
-- counter, tokens, most calls and tokens, most milliseconds, else nothing or five
-- empty ones; with an effect its window, and whether it is allowed to be had again.
-- Returns {verdict, record, tally}, when won {verdict, epoch, started, lease end,
-- tally, each log}, when exceeded {verdict, ceiling, tally}, when an effect stands in
-- the way {verdict, record, its name, tally}; the tally is missing without a draw.
local WON, REPLAY, IN_FLIGHT, OUTCOME_UNKNOWN, MISMATCH, EXCEEDED = 1, 2, 3, 4, 5, 6
local owner, tool, effect, fingerprint = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local leased, retention = now + ARGV[5], ARGV[6]
local epoch, since = 0, now
local early
if not stored and KEYS[2] then
  early = several(unpack(KEYS, 2)) -- it is most likely won
end
if drawn and not tally(drawn, KEYS[#KEYS], early and early[#KEYS - 1]) then
  return redis.error_reply(NO_TALLY)
end
local again = false
if stored then
  if state == CLOSED then
    return {REPLAY, stored, drawn and shown() or nil}
  elseif name ~= tool or print ~= fingerprint then
    return {MISMATCH, stored, drawn and shown() or nil}
  elseif state == DONE then
    return {REPLAY, stored, drawn and shown() or nil}
  elseif state == UNKNOWN then
    return {OUTCOME_UNKNOWN, stored, drawn and shown() or nil}
  elseif state == CLAIMED then
    if holder == owner then
      -- It did not hear the answer; it has started nothing.
      store(retention, '', CLAIMED, was, waited, 0, e, started, 0, leased, print, holder, name, charges)
      again, since = true, started
    elseif now < lease and not succeeds(owner, holder) then
      if waited == 0 then
        -- For the sake of a hint: a full server need not take it.
        redis.pcall('SETRANGE', KEYS[1], WAITED_AT, '\1')
      end
      return {IN_FLIGHT, stored, drawn and shown() or nil}
    elseif was == NON_IDEMPOTENT or effect == NON_IDEMPOTENT then
      return {OUTCOME_UNKNOWN, store(retention, '', UNKNOWN, was, waited, 0, e, started, now, 0, print, holder, name, charges), drawn and shown() or nil}
    end
  elseif owner == holder then
    -- An earlier copy of the request, late on its way: nobody hears the answer.
    return {IN_FLIGHT, stored, drawn and shown() or nil}
  elseif was ~= NON_IDEMPOTENT and effect == NON_IDEMPOTENT and (attempts > 0 or e > 1) then
    -- NOT_RUN of a call that could be repeated: it may have run.
    -- Then it stays charged after all.
    if counted and not charge(charges, 1) then
      return redis.error_reply(NO_TALLY)
    end
    local unknown = store(retention, '', UNKNOWN, effect, 0, math.max(attempts, 1), e, started, now, 0, print, holder, name, charges)
    if counted then
      move(retention)
    end
    return {OUTCOME_UNKNOWN, unknown, drawn and shown() or nil}
  end
  epoch = e
end
if not again then
  local holds
  if contended then
    local refusal
    refusal, holds = contend(contended, owner, effect, tonumber(ARGV[13]), ARGV[14] == '1')
    if refusal then
      refusal[4] = refusal[1] and drawn and shown() or nil
      return refusal
    end
  end
  if counted and (not charge(ARGV[7], 1) or state == CLAIMED and not charge(charges, -1)) then
    return redis.error_reply(NO_TALLY)
  end
  if drawn then
    local t = tally(drawn)
    local ceiling = draw(t, t.add)
    if ceiling ~= 0 then
      return {EXCEEDED, ceiling, line(t)}
    end
    t.moves, t.found = true, true
  end
  epoch = epoch + 1
  store(retention, '', CLAIMED, effect, 0, 0, epoch, now, 0, leased, fingerprint, owner, tool, ARGV[7])
  if counted then
    move(retention)
  end
  if holds then
    hold(contended, holds, retention + tonumber(ARGV[13]))
  end
end
local answer = {WON, epoch, since, leased}
local logs = #KEYS - (contended and 1 or 0) - (drawn and 1 or 0)
if drawn or logs > 1 then
  answer[5] = drawn and shown() or ''
  for i = 2, logs do
    answer[4 + i] = read(KEYS[i], early and early[i - 1])
  end
end
return answer
