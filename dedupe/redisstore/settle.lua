-- The rows of the state machine that end a claim (Record.Settle).
-- KEYS: record, and where to keep an output. ARGV: owner, epoch, state,
-- attempts, result, retention, and output and its time to live.
local SETTLED, SUPERSEDED = 1, 2
if not stored then
  return SUPERSEDED
end
local owner, epoch, to = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local _, state, effect, attempts, e, started, finished, lease, kept, print, holder, name, rest = struct.unpack(LAYOUT, stored)
if holder ~= owner or not (e == epoch or epoch == 0 and to == NOT_RUN) then
  return SUPERSEDED
end
if state == to then
  -- Said before; DONE only counts as the same with the same result.
  if state == DONE and string.sub(stored, rest) ~= ARGV[5] then
    return SUPERSEDED
  end
elseif state == CLAIMED and (to ~= UNKNOWN or effect == NON_IDEMPOTENT) or state == UNKNOWN and to == DONE then
  local retention = tonumber(ARGV[6])
  redis.call('SET', KEYS[1], struct.pack(LAYOUT, VERSION, to, effect, tonumber(ARGV[4]), e, started, now, 0, retention,
    print, #holder, holder, #name, name) .. ARGV[5], 'PX', retention)
else
  return SUPERSEDED
end
if KEYS[2] then
  redis.call('SET', KEYS[2], ARGV[7], 'PX', ARGV[8])
end
return SETTLED
