-- Who holds an effect (EffectKey), and whether that stands in another's way
-- (Contend).
--
-- The holders are lines of a text, the newest first: the keys of their records
-- without the prefix of all keys. Those of a conversation have its tag, so that all
-- are in the slot of the script. What a record says is read from it alone.
--
-- They are made for a call whose effect has an identity.
local READ_ONLY, IDEMPOTENT = 1, 2
local MAX_HOLDERS = 8
local prefix, own, hold, others, free
if contended then
  function prefix()
    return (string.match(KEYS[1], '^(.*){[^{]*$'))
  end
  -- The records that hold an effect, as they are named.
  local function holders(effect)
    local names = {}
    for line in string.gmatch(redis.call('GET', effect) or '', '[^\n]+') do
      names[#names + 1] = line
    end
    return names
  end
  -- The name of the script's own record among them.
  function own()
    return string.sub(KEYS[1], #prefix() + 1)
  end
  function hold(effect, names, keep)
    redis.call('SET', effect, table.concat(names, '\n'), 'PX', keep)
  end
  -- Who holds it besides the script's own record.
  function others(effect)
    local names, mine = {}, own()
    for _, each in ipairs(holders(effect)) do
      if each ~= mine then
        names[#names + 1] = each
      end
    end
    return names
  end
  -- Takes the script's own record out of them.
  function free(effect)
    local left = redis.call('PTTL', effect)
    if left > 0 then
      hold(effect, others(effect), left)
    end
  end
end
