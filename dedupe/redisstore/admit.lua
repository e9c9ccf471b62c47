-- The rows of the state machine that begin with a request (Record.Admit).
-- KEYS: record, logs to read. ARGV: owner, tool, effect, fingerprint, lease,
-- retention, charges; with a draw its counter, tokens, most calls and tokens, most
-- milliseconds, else nothing or five empty ones; with an effect, whose key is the last
-- of KEYS, its window, and whether it is allowed to be had again.
-- Returns {verdict, record, tally}, when won {verdict, epoch, started, lease end,
-- tally, each log}, when exceeded {verdict, ceiling, tally}, when an effect stands in
-- the way {verdict, record, its name, tally}; the tally is missing without a draw.
local WON, REPLAY, IN_FLIGHT, OUTCOME_UNKNOWN, MISMATCH, EXCEEDED = 1, 2, 3, 4, 5, 6
local owner, tool, effect, fingerprint = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local leased, retention = now + tonumber(ARGV[5]), tonumber(ARGV[6])
local epoch = 0
local drawn = ARGV[8] ~= '' and ARGV[8]
local effect_key = ARGV[13] and KEYS[#KEYS]
local logged = effect_key and #KEYS - 1 or #KEYS
if drawn and not tally(drawn) then
  return redis.error_reply(NO_TALLY)
end
-- The tally as it is now, for an answer.
local function shown()
  return drawn and line(tally(drawn)) or nil
end
-- What is won, with all that was asked for.
local function won(epoch, from, leased)
  if not drawn and logged == 1 then
    return {WON, epoch, from, leased}
  end
  local answer = {WON, epoch, from, leased, shown() or ''}
  for i = 2, logged do
    answer[#answer + 1] = read(KEYS[i])
  end
  return answer
end
if stored then
  if name ~= tool or print ~= fingerprint then
    return {MISMATCH, stored, shown()}
  elseif state == DONE then
    return {REPLAY, stored, shown()}
  elseif state == UNKNOWN then
    return {OUTCOME_UNKNOWN, stored, shown()}
  elseif state == CLAIMED then
    if holder == owner then
      -- It did not hear the answer; it has started nothing.
      store(retention, '', CLAIMED, was, waited, 0, e, started, 0, leased, print, holder, name, charges)
      return won(e, started, leased)
    elseif now < lease and not succeeds(owner, holder) then
      if waited == 0 then
        -- For the sake of a hint: a full server need not take it.
        redis.pcall('SETRANGE', KEYS[1], WAITED_AT, '\1')
      end
      return {IN_FLIGHT, stored, shown()}
    elseif was == NON_IDEMPOTENT or effect == NON_IDEMPOTENT then
      return {OUTCOME_UNKNOWN, store(retention, '', UNKNOWN, was, waited, 0, e, started, now, 0, print, holder, name, charges), shown()}
    end
  elseif owner == holder then
    -- An earlier copy of the request, late on its way: nobody hears the answer.
    return {IN_FLIGHT, stored, shown()}
  elseif was ~= NON_IDEMPOTENT and effect == NON_IDEMPOTENT and (attempts > 0 or e > 1) then
    -- NOT_RUN of a call that could be repeated: it may have run.
    -- Then it stays charged after all.
    local moves = {}
    if not charge(moves, charges, 1) then
      return redis.error_reply(NO_TALLY)
    end
    local unknown = store(retention, '', UNKNOWN, effect, 0, 0, e, started, now, 0, print, holder, name, charges)
    move(moves, retention)
    return {OUTCOME_UNKNOWN, unknown, shown()}
  end
  epoch = e
end
local holds
if effect_key then
  local refusal
  refusal, holds = contend(effect_key, owner, effect, tonumber(ARGV[13]), ARGV[14] == '1')
  if refusal then
    refusal[4] = refusal[1] and shown() or nil
    return refusal
  end
end
local moves = {}
if not charge(moves, ARGV[7], 1) or state == CLAIMED and not charge(moves, charges, -1) then
  return redis.error_reply(NO_TALLY)
end
if drawn then
  local t, ceiling = tally(drawn), draw(tally(drawn), moves[drawn] or 0)
  if ceiling ~= 0 then
    return {EXCEEDED, ceiling, line(t)}
  end
  moves[drawn] = moves[drawn] or 0
  t[FOUND] = true
end
store(retention, '', CLAIMED, effect, 0, 0, epoch + 1, now, 0, leased, fingerprint, owner, tool, ARGV[7])
move(moves, retention)
if holds then
  hold(effect_key, holds, retention + tonumber(ARGV[13]))
end
return won(epoch + 1, now, leased)
