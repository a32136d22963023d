-- One look at lock keys, all at the same instant of the server.
-- KEYS: lock keys.  Reply: {the server's clock in microseconds, value 1, PTTL 1, value 2, PTTL 2, ...}; '' = no value.
local t = redis.call('TIME')
local reply = {tonumber(t[1]) * 1000000 + tonumber(t[2])}
for _, key in ipairs(KEYS) do
  reply[#reply + 1] = redis.call('GET', key) or ''
  reply[#reply + 1] = redis.call('PTTL', key)
end
return reply
