-- Whether an owner is of a later incarnation of the same instance than another
-- (dedupe/incarnation.go).
local function succeeds(owner, other)
  local instance, number = string.match(owner, '^@([^@]*)@(%d+)%.')
  local of, earlier = string.match(other, '^@([^@]*)@(%d+)%.')
  return instance ~= nil and instance == of and tonumber(number) > tonumber(earlier)
end
