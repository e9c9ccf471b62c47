-- What a settlement does besides it; beside is where that begins, behind the logs.
local logs = tonumber(ARGV[10] or 0)
local beside = 11 + 2 * logs
local spends = ARGV[beside] and ARGV[beside] ~= '' and ARGV[beside]
local contended = ARGV[beside + 2] == '1'
local counted = spends or stored and charges ~= ''
