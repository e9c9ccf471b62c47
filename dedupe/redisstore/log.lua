-- Logs of a conversation: lists, the latest entry last.
local function append(key, entry, entries, keep)
  redis.call('RPUSH', key, entry)
  redis.call('LTRIM', key, -tonumber(entries), -1)
  redis.call('PEXPIRE', key, keep)
end
