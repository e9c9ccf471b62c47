-- The tallies of a conversation, and what charges add to them (Record.Moves).
--
-- A tally is one line of numbers, for whoever looks at it: its calls, its tokens
-- reported and estimated, and its start in milliseconds since 1970. Its key, like
-- that of a log, has the tag of the record's, so that both are in one slot; that of
-- an earlier claim's charge is known only from its record.
--
-- They are made for a call that is counted, or was when it was claimed.
local NO_TALLY = 'SIDECALL the tally of a prompt cannot be what was written'
local tally, line, charge, move
if counted then
  local tallies = {}
  -- The tally of a counter, and its line where that has been read; false when it
  -- cannot be what was written.
  function tally(counter, key, line)
    local t = tallies[counter]
    if t == nil then
      if not key then
        local prefix, tag = string.match(KEYS[1], '^(.*)({.*})')
        key = prefix .. 'budget/' .. tag .. '/' .. (string.gsub(counter, '[^%w%-_.~:]', function(c)
          return string.format('%%%02X', string.byte(c))
        end))
      end
      line = line or redis.call('GET', key) -- where the key has another type this fails
      if not line then
        t = {calls = 0, reported = 0, estimated = 0, since = 0, add = 0, key = key}
      else
        local calls, reported, estimated, since = string.match(line, '^(%d+) (%d+) (%d+) (%d+)$')
        t = calls and {calls = tonumber(calls), reported = tonumber(reported), estimated = tonumber(estimated),
          since = tonumber(since), add = 0, key = key, found = true} or false
      end
      tallies[counter] = t
    end
    return t
  end
  -- The line of a tally.
  function line(t)
    return string.format('%d %d %d %d', t.calls, t.reported, t.estimated, t.since)
  end
  -- Adds charges, or takes them away, to what each tally is to have more. False
  -- when a tally cannot be what was written: then nothing may be stored.
  function charge(text, sign)
    local at = 1
    while at <= #text do
      local counter, amount
      counter, amount, at = struct.unpack('>I2c0I8', text, at)
      local t = tally(counter)
      if not t then
        return false
      end
      t.add, t.moves = t.add + sign * amount, true
    end
    return true
  end
  -- Stores the tallies that move; what is given back to one that is gone is dropped.
  function move(keep)
    for _, t in pairs(tallies) do
      if t and t.moves and (t.found or t.add > 0) then
        t.calls = math.max(0, t.calls + t.add)
        if t.since == 0 then
          t.since = now
        end
        t.line = line(t)
        redis.call('SET', t.key, t.line, 'PX', keep)
      end
    end
  end
end
