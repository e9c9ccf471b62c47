-- Returns {output, milliseconds left}, or nothing. KEYS: output.
local value = redis.call('GET', KEYS[1])
return value and {value, redis.call('PTTL', KEYS[1])}
