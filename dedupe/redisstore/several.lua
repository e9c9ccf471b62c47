-- Reads several texts by one command, which costs less than one for each: {text or
-- false, each}. Nothing where a user may not do that; they are read one by one then.
local function several(...)
  local texts = redis.pcall('MGET', ...)
  return not texts.err and texts or nil
end
