-- One look at lock keys, all at the same instant of the server.
-- KEYS: lock keys.  ARGV: how many of them, the first, are read in any case; the others only if one of those is there.
-- Reply: {the server's clock in microseconds, value 1, PTTL 1, value 2, PTTL 2, ...}; '' = no value. Of a small hash, as Redisson has
-- it, the value is the names of its fields: who holds it; one without expiry has PTTL -3. A key of another type is no lock: it counts as absent.
-- Any other error, such as a right that is missing, is the reply: what could not be read is not absent.
local function unread(got) return type(got) == 'table' and not string.find(got.err, 'WRONGTYPE', 1, true) end
local t = redis.call('TIME')
local reply = {tonumber(t[1]) * 1000000 + tonumber(t[2])}
local n = tonumber(ARGV[1])
if n < #KEYS and redis.call('EXISTS', unpack(KEYS, n + 1)) > 0 then
  n = #KEYS
end
for i = 1, n do
  local value = redis.pcall('GET', KEYS[i])
  if unread(value) then return value end
  local pttl
  if type(value) == 'table' then
    local fields = redis.pcall('HLEN', KEYS[i])
    if unread(fields) then return fields end
    value = nil
    if type(fields) == 'number' and fields <= 16 then
      pttl = redis.call('PTTL', KEYS[i])
      if pttl == -1 then pttl = -3 end
      fields = redis.call('HKEYS', KEYS[i])
      table.sort(fields)
      value = table.concat(fields, '\n')
    end
  end
  reply[#reply + 1] = value or ''
  reply[#reply + 1] = value ~= nil and (pttl or redis.call('PTTL', KEYS[i])) or -2
end
return reply
