-- Takes a free lock for a token and mints the epoch's fence. Needs Redis 6.2.
-- KEYS: lock, fence.  ARGV: token, ttl in ms, ttl of the fence key in ms.
-- Reply: "fence" or "fence micros"  granted; the server's clock in microseconds, where it is not the fence itself
--        {holder's token, pttl ms}  held
--        0                          held by this token, whose fence is no longer kept
-- The usual case is short on purpose, in calls and in work on numbers: an acquire costs the server more than all else.
local call = redis.call
if call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local time = call('TIME')
  -- The microseconds keep fences growing when the counter was lost; below 2^53 they are exact numbers here.
  local micros = time[1] .. string.sub('00000' .. time[2], -6)
  local last = call('SET', KEYS[2], micros, 'PX', ARGV[3], 'GET')
  if not last or #last < #micros or #last == #micros and last < micros then return micros end
  local fence = string.format('%.0f', last + 1)
  call('SET', KEYS[2], fence, 'PX', ARGV[3])
  return fence .. ' ' .. micros
end
local holder = call('GET', KEYS[1])
if holder ~= ARGV[1] then return {holder, call('PTTL', KEYS[1])} end
local last = call('GET', KEYS[2]) -- a lost reply is asked for again
if not last then return 0 end
local time = call('TIME')
return last .. ' ' .. time[1] .. string.sub('00000' .. time[2], -6)
