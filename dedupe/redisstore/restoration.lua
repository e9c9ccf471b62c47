-- What a claim is restored with.
local counted, contended = ARGV[9] ~= '', KEYS[2]
