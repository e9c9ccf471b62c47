-- The rows of the state machine that begin with a request (Record.Admit).
-- KEYS: record. ARGV: owner, tool, effect, fingerprint, lease, retention, charges.
-- Returns {verdict, record} or, when won, {verdict, epoch, started, lease end}.
local WON, REPLAY, IN_FLIGHT, OUTCOME_UNKNOWN, MISMATCH = 1, 2, 3, 4, 5
local owner, tool, effect, fingerprint = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local leased, retention = now + tonumber(ARGV[5]), tonumber(ARGV[6])
local epoch = 0
if stored then
  if name ~= tool or print ~= fingerprint then
    return {MISMATCH, stored}
  elseif state == DONE then
    return {REPLAY, stored}
  elseif state == UNKNOWN then
    return {OUTCOME_UNKNOWN, stored}
  elseif state == CLAIMED then
    if holder == owner then
      -- It did not hear the answer; it has started nothing.
      store(retention, '', CLAIMED, was, waited, 0, e, started, 0, leased, print, holder, name, charges)
      return {WON, e, started, leased}
    elseif now < lease and not succeeds(owner, holder) then
      if waited == 0 then
        -- For the sake of a hint: a full server need not take it.
        redis.pcall('SETRANGE', KEYS[1], WAITED_AT, '\1')
      end
      return {IN_FLIGHT, stored}
    elseif was == NON_IDEMPOTENT or effect == NON_IDEMPOTENT then
      return {OUTCOME_UNKNOWN, store(retention, '', UNKNOWN, was, waited, 0, e, started, now, 0, print, holder, name, charges)}
    end
  elseif owner == holder then
    -- An earlier copy of the request, late on its way: nobody hears the answer.
    return {IN_FLIGHT, stored}
  elseif was ~= NON_IDEMPOTENT and effect == NON_IDEMPOTENT and (attempts > 0 or e > 1) then
    -- NOT_RUN of a call that could be repeated: it may have run.
    return {OUTCOME_UNKNOWN, store(retention, '', UNKNOWN, effect, 0, 0, e, started, now, 0, print, holder, name, charges)}
  end
  epoch = e
end
store(retention, '', CLAIMED, effect, 0, 0, epoch + 1, now, 0, leased, fingerprint, owner, tool, ARGV[7])
return {WON, epoch + 1, now, leased}
