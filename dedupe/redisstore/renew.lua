-- Extends the lease of a claim (Record.Renew). KEYS: record. ARGV: owner,
-- epoch, lease. Returns 1, or 0 when the claim is no longer this owner's.
if not stored then
  return 0
end
local _, state, effect, waited, attempts, e, started, finished, lease, kept, print, holder, name = struct.unpack(LAYOUT, stored)
if state ~= CLAIMED or holder ~= ARGV[1] or e ~= tonumber(ARGV[2]) then
  return 0
end
redis.call('SET', KEYS[1], struct.pack(LAYOUT, VERSION, CLAIMED, effect, waited, 0, e, started, 0, now + tonumber(ARGV[3]), kept,
  print, #holder, holder, #name, name), 'PX', kept)
return 1
