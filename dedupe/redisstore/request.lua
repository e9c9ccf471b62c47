-- What a request asks for besides its claim.
local drawn = ARGV[8] and ARGV[8] ~= '' and ARGV[8]
local contended = ARGV[13] and KEYS[drawn and #KEYS - 1 or #KEYS]
local counted = drawn or ARGV[7] ~= '' or stored and charges ~= ''
