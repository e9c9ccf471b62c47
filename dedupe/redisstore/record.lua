-- What every script on a record begins with.
--
-- A record is one string, so that reading and writing it is one command each:
-- the layout of package dedupe (layout.go), its seal (seal.go), and the result up
-- to the end. The retention is kept in it because the key lives for that, never
-- for the lease: an expired key would be a forgotten call. Time is this server's
-- own.
--
-- Its mark is 1 once another has asked for the call while it ran: whoever settles
-- it then publishes that. The charges are one text here, which is only passed on.
-- Of the versions of the layout, VERSION is written and OLDEST the lowest that is read
-- (script.go).
--
-- What a script makes costs as much as what it does: a function, a variable that one
-- takes with it, a text put together. So constants that one function needs stand in
-- it, and what only some requests need is made for those (tally.lua, effect.lua).
local WAITED_AT = 3
local CLAIMED, DONE, NOT_RUN, UNKNOWN, CLOSED = 1, 2, 3, 4, 5
local NON_IDEMPOTENT = 0
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local stored = redis.call('GET', KEYS[1])
-- The seal of what stands before it in a record of a given mark, which counts as 0:
-- it is set alone.
local function seal(head, mark)
  if mark ~= 0 then
    head = string.sub(head, 1, 3) .. '\0' .. string.sub(head, 5)
  end
  return tonumber(string.sub(redis.sha1hex(head), 1, 8), 16)
end
-- Returns what is wrong with a record, or nil and its fields.
local function decode(stored)
  local FIRST, LAST, KEYED = 1, 5, 3 -- of the states, of the effects
  local MAX_ATTEMPTS, MAX_NAME = 2147483647, 1024
  local version = string.byte(stored)
  if version and (version < OLDEST or version > VERSION) then
    return 'LAYOUT ' .. version
  end
  local whole, _, state, was, waited, attempts, e, started, finished, lease, kept, print, holder, name, charges, size, _, sealed, rest =
    pcall(struct.unpack, '>BBBBI4I8I8I8I8I8c32I2c0I2c0I2c0I4I4I4', stored)
  whole = whole and size == #stored - rest + 1 and sealed == seal(string.sub(stored, 1, rest - 5), waited)
  if not whole or state < FIRST or state > LAST or was > KEYED or waited > 1 or attempts < 0
    or attempts > MAX_ATTEMPTS or e < 1 or kept < 1 or #holder < 1 or #holder > MAX_NAME or #name > MAX_NAME then
    return 'SIDECALL the record cannot be what was written'
  end
  return nil, state, was, waited, attempts, e, started, finished, lease, kept, print, holder, name, charges, rest
end
-- The fields of the record, when there is one; rest is where its result begins.
local wrong, state, was, waited, attempts, e, started, finished, lease, kept, print, holder, name, charges, rest
if stored then
  wrong, state, was, waited, attempts, e, started, finished, lease, kept, print, holder, name, charges, rest = decode(stored)
  if wrong then
    return redis.error_reply(wrong)
  end
end
-- Stores a record: what follows are its fields from the state on, and the checksum of
-- its result, where it has one.
local function store(retention, result, to, effect, mark, tries, epoch, from, ended, leased, fingerprint, owner, tool, charged, sum)
  local record = struct.pack('>BBBBI4I8I8I8I8I8c32I2c0I2c0I2c0I4I4', VERSION, to, effect, mark, tries, epoch, from, ended, leased, retention,
    fingerprint, #owner, owner, #tool, tool, #charged, charged, #result, sum or 0)
  record = record .. struct.pack('>I4', seal(record, mark)) .. result
  redis.call('SET', KEYS[1], record, 'PX', retention)
  return record
end
