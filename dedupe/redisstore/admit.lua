-- The rows of the state machine that begin with a request (Record.Admit).
-- KEYS: record. ARGV: owner, tool, effect, fingerprint, lease, retention.
-- Returns {verdict, record} or, when won, {verdict, epoch, started, lease end}.
local WON, REPLAY, IN_FLIGHT, OUTCOME_UNKNOWN, MISMATCH = 1, 2, 3, 4, 5
local owner, tool, effect, fingerprint = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local leased, retention = now + tonumber(ARGV[5]), tonumber(ARGV[6])
local epoch = 0
if stored then
  local _, state, was, waited, attempts, e, started, finished, lease, kept, print, holder, name = struct.unpack(LAYOUT, stored)
  if name ~= tool or print ~= fingerprint then
    return {MISMATCH, stored}
  elseif state == DONE then
    return {REPLAY, stored}
  elseif state == UNKNOWN then
    return {OUTCOME_UNKNOWN, stored}
  elseif state == CLAIMED then
    if holder == owner then
      -- It did not hear the answer; it has started nothing.
      redis.call('SET', KEYS[1], struct.pack(LAYOUT, VERSION, CLAIMED, was, waited, 0, e, started, 0, leased, retention,
        print, #holder, holder, #name, name), 'PX', retention)
      return {WON, e, started, leased}
    elseif now < lease then
      if waited == 0 then
        -- For the sake of a hint: a full server need not take it.
        redis.pcall('SETRANGE', KEYS[1], WAITED_AT, '\1')
      end
      return {IN_FLIGHT, stored}
    elseif was == NON_IDEMPOTENT or effect == NON_IDEMPOTENT then
      local lost = struct.pack(LAYOUT, VERSION, UNKNOWN, was, waited, 0, e, started, now, 0, retention,
        print, #holder, holder, #name, name)
      redis.call('SET', KEYS[1], lost, 'PX', retention)
      return {OUTCOME_UNKNOWN, lost}
    end
  elseif owner == holder then
    -- An earlier copy of the request, late on its way: nobody hears the answer.
    return {IN_FLIGHT, stored}
  elseif was ~= NON_IDEMPOTENT and effect == NON_IDEMPOTENT and (attempts > 0 or e > 1) then
    -- NOT_RUN of a call that could be repeated: it may have run.
    local doubted = struct.pack(LAYOUT, VERSION, UNKNOWN, effect, 0, 0, e, started, now, 0, retention,
      print, #holder, holder, #name, name)
    redis.call('SET', KEYS[1], doubted, 'PX', retention)
    return {OUTCOME_UNKNOWN, doubted}
  end
  epoch = e
end
redis.call('SET', KEYS[1], struct.pack(LAYOUT, VERSION, CLAIMED, effect, 0, 0, epoch + 1, now, 0, leased, retention,
  fingerprint, #owner, owner, #tool, tool), 'PX', retention)
return {WON, epoch + 1, now, leased}
