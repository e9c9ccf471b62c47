-- Whose tally a note tells.
local counted = ARGV[3] ~= ''
