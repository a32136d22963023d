-- One look at lock keys, all at the same instant of the server.
-- KEYS: lock keys.  ARGV: how many of them, the first, are read in any case; the others only if one of those is there.
-- Reply: {the server's clock in microseconds, value 1, PTTL 1, value 2, PTTL 2, ...}; '' = no value. A key that is no string is no lock: it
-- counts as absent.
local t = redis.call('TIME')
local reply = {tonumber(t[1]) * 1000000 + tonumber(t[2])}
local n = tonumber(ARGV[1])
if n < #KEYS and redis.call('EXISTS', unpack(KEYS, n + 1)) > 0 then
  n = #KEYS
end
for i = 1, n do
  local value = redis.pcall('GET', KEYS[i])
  local string = type(value) ~= 'table'
  reply[#reply + 1] = string and value or ''
  reply[#reply + 1] = string and redis.call('PTTL', KEYS[i]) or -2
end
return reply
