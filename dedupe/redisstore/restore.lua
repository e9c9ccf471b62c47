-- Writes the record of a running call back when there is none (Record.Restore).
-- KEYS: record. ARGV: owner, epoch, tool, effect, fingerprint, started, lease,
-- retention, charges; with an effect, whose key is the second, how long to remember
-- who holds it. Returns {whether it was missing, record}.
if stored then
  return {0, stored}
end
if counted then
  if not charge(ARGV[9], 1) then
    return redis.error_reply(NO_TALLY)
  end
  move(ARGV[8])
end
if KEYS[2] then
  local names = others(KEYS[2])
  table.insert(names, 1, own())
  hold(KEYS[2], {unpack(names, 1, MAX_HOLDERS)}, ARGV[10])
end
local effect, epoch, since, retention = tonumber(ARGV[4]), tonumber(ARGV[2]), tonumber(ARGV[6]), tonumber(ARGV[8])
if effect == NON_IDEMPOTENT then
  return {1, store(retention, '', UNKNOWN, effect, 0, 0, epoch, since, now, 0, ARGV[5], ARGV[1], ARGV[3], ARGV[9])}
end
return {1, store(retention, '', CLAIMED, effect, 0, 0, epoch, since, 0, now + tonumber(ARGV[7]), ARGV[5], ARGV[1], ARGV[3], ARGV[9])}
