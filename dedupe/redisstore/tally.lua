-- The tallies of a conversation, and what charges add to them (Record.Moves).
--
-- A tally is one line of numbers, for whoever looks at it: its calls, its tokens
-- reported and estimated, and its start in milliseconds since 1970. Its key, like
-- that of a log, has the tag of the record's, so that both are in one slot; that of
-- an earlier claim's charge is known only from its record.
local CALLS, REPORTED, ESTIMATED, STARTED, KEY, FOUND = 1, 2, 3, 4, 5, 6
local tallies = {}
-- The tally of a counter; nil when it cannot be what was written.
local function tally(counter)
  if not tallies[counter] then
    local prefix, tag = string.match(KEYS[1], '^(.*)({.*})')
    local key = prefix .. 'budget/' .. tag .. '/' .. (string.gsub(counter, '[^%w%-_.~:]', function(c)
      return string.format('%%%02X', string.byte(c))
    end))
    local line = redis.call('GET', key)
    if not line then
      tallies[counter] = {0, 0, 0, 0, key, false}
    else
      local calls, reported, estimated, since = string.match(line, '^(%d+) (%d+) (%d+) (%d+)$')
      tallies[counter] = calls and {tonumber(calls), tonumber(reported), tonumber(estimated), tonumber(since), key, true}
    end
  end
  return tallies[counter]
end
local MAX_TOKENS = 2^50
local NO_TALLY = 'SIDECALL the tally of a prompt cannot be what was written'
-- The line of a tally.
local function line(t)
  return string.format('%.0f %.0f %.0f %.0f', t[CALLS], t[REPORTED], t[ESTIMATED], t[STARTED])
end
-- Adds charges, or takes them away, to what is to be added to each tally. False
-- when a tally cannot be what was written: then nothing may be stored.
local function charge(moves, text, sign)
  local at = 1
  while at <= #text do
    local counter = struct.unpack('>I2c0', text, at)
    local amount = struct.unpack('>I8', text, at + 2 + #counter)
    at = at + 10 + #counter
    if not tally(counter) then
      return false
    end
    moves[counter] = (moves[counter] or 0) + sign * amount
  end
  return true
end
-- Stores what moves do to tallies; what is given back to one that is gone is
-- dropped.
local function move(moves, keep)
  for counter, calls in pairs(moves) do
    local t = tally(counter)
    if t[FOUND] or calls > 0 then
      t[CALLS] = math.max(0, t[CALLS] + calls)
      if t[STARTED] == 0 then
        t[STARTED] = now
      end
      redis.call('SET', t[KEY], line(t), 'PX', keep)
      t[FOUND] = true
    end
  end
end
