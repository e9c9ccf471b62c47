-- Logs of a conversation, as package dedupe lays them out (log.go): entries, oldest
-- first, each with its length in 2 bytes before it. One that cannot be what was
-- written begins anew: nothing but advice rests on it.
local function append(key, entry, entries, keep)
  local log = redis.pcall('GET', key)
  local starts, at = {}, 1
  if type(log) ~= 'string' then
    log = ''
  end
  while at < #log do
    starts[#starts + 1] = at
    at = at + 2 + struct.unpack('>I2', log, at)
  end
  local surplus = #starts + 1 - tonumber(entries)
  if at ~= #log + 1 then
    log = ''
  elseif surplus > 0 then
    log = string.sub(log, starts[surplus + 1] or at)
  end
  redis.call('SET', key, log .. struct.pack('>I2', #entry) .. entry, 'PX', keep)
end
local function read(key)
  local log = redis.pcall('GET', key)
  return type(log) == 'string' and log or ''
end
