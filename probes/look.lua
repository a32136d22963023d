-- One look at lock keys, all at the same instant of the server.
-- KEYS: lock keys.  ARGV: how many of them, the first, are read in any case; the others only if one of those is there.
-- Reply: {the server's clock in microseconds, value 1, PTTL 1, value 2, PTTL 2, ...}; '' = no value.
local t = redis.call('TIME')
local reply = {tonumber(t[1]) * 1000000 + tonumber(t[2])}
local n = tonumber(ARGV[1])
if n < #KEYS and redis.call('EXISTS', unpack(KEYS, n + 1)) > 0 then
  n = #KEYS
end
for i = 1, n do
  reply[#reply + 1] = redis.call('GET', KEYS[i]) or ''
  reply[#reply + 1] = redis.call('PTTL', KEYS[i])
end
return reply
