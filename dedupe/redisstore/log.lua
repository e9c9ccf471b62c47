-- Logs of a conversation, as package dedupe lays them out (log.go): how many entries in
-- 2 bytes; and the entries, oldest first, each with its length in 2 bytes before it. One
-- that cannot be what was written begins anew: nothing but advice rests on it.
--
-- A log that has room for an entry is written behind, and not read: of a text in a
-- script each byte is hashed. Where a user may not do so it is read and written whole.
local function append(key, entry, entries, keep)
  local head = redis.pcall('GETRANGE', key, '0', '1')
  local first, second
  if type(head) == 'string' then
    first, second = string.byte(head, 1, 2)
  end
  local written = struct.pack('>I2c0', #entry, entry)
  local count, rest = second and first * 256 + second or 0, ''
  local size = second and count < tonumber(entries) and redis.pcall('APPEND', key, written)
  if type(size) == 'number' then
    if 3 * count <= size - #written - 2 then
      redis.call('SETRANGE', key, '0', struct.pack('>I2', count + 1))
      redis.pcall('PEXPIRE', key, keep)
      return
    end
    count = 0
  elseif second then
    local log, at = redis.call('GET', key), 3
    while count + 1 > tonumber(entries) and at + 1 <= #log do
      count, at = count - 1, at + 2 + struct.unpack('>I2', log, at)
    end
    if count + 1 > tonumber(entries) or at > #log + 1 or 3 * count > #log + 1 - at then
      count = 0
    else
      rest = string.sub(log, at)
    end
  end
  redis.call('SET', key, struct.pack('>I2', count + 1) .. rest .. written, 'PX', keep)
end
