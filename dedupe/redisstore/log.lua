-- Logs of a conversation, as package dedupe lays them out (log.go): how many entries in
-- 2 bytes; and the entries, oldest first, each with its length in 2 bytes before it. One
-- that cannot be what was written begins anew: nothing but advice rests on it.
local function append(key, entry, entries, keep)
  local log = redis.pcall('GET', key)
  local count, at = 0, 3
  if type(log) == 'string' and #log >= 2 then
    count = struct.unpack('>I2', log)
    while count + 1 > tonumber(entries) and at + 1 <= #log do
      count, at = count - 1, at + 2 + struct.unpack('>I2', log, at)
    end
  end
  if type(log) ~= 'string' or count + 1 > tonumber(entries) or at > #log + 1 or 3 * count > #log + 1 - at then
    count, at, log = 0, 1, ''
  end
  redis.call('SET', key, struct.pack('>I2', count + 1) .. string.sub(log, at) .. struct.pack('>I2', #entry) .. entry, 'PX', keep)
end
local function read(key)
  local log = redis.pcall('GET', key)
  return type(log) == 'string' and log or ''
end
