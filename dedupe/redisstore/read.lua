-- A log as it is stored (log.lua); empty where there is none.
local function read(key, log)
  if log == nil then
    log = redis.pcall('GET', key)
  end
  return type(log) == 'string' and log or ''
end
