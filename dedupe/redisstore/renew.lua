-- Extends the lease of a claim (Record.Renew). KEYS: record. ARGV: owner,
-- epoch, lease. Returns 1, or 0 when the claim is no longer this owner's.
if not stored then
  return 0
end
if state ~= CLAIMED or holder ~= ARGV[1] or e ~= tonumber(ARGV[2]) then
  return 0
end
store(kept, '', CLAIMED, was, waited, 0, e, started, 0, now + tonumber(ARGV[3]), print, holder, name, charges)
return 1
