-- What every script begins with.
--
-- A record is one string, so that reading and writing it is one command each:
-- in big-endian, version, state, effect and waited (1 byte each), attempts (4),
-- epoch, started, finished, lease end and retention (8 each, milliseconds), the
-- fingerprint (32), owner and tool (each with its length in 2 bytes before it),
-- and the result up to the end. codec.go reads the same layout.
--
-- waited is 1 once another has asked for the call while it ran: whoever settles
-- it then publishes that. The key lives for the retention, never for the lease:
-- an expired key would be a forgotten call. Time is this server's own.
local LAYOUT = '>BBBBI4I8I8I8I8I8c32I2c0I2c0'
local VERSION = 2
local WAITED_AT = 3
local CLAIMED, DONE, NOT_RUN, UNKNOWN = 1, 2, 3, 4
local NON_IDEMPOTENT = 0
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local stored = redis.call('GET', KEYS[1])
if stored and string.byte(stored) ~= VERSION then
  return redis.error_reply('SIDECALL the record has a layout that this version does not know')
end
