-- Takes a free lock for a token and mints the epoch's fence.
-- KEYS: lock, fence.  ARGV: token, ttl in ms, ttl of the fence key in ms.
-- Reply: {1, fence, seconds, microseconds}  granted (the server's clock)
--        {0, holder's token, pttl in ms}    held
--        {2}                                held by this token, whose fence is no longer kept
local time = redis.call('TIME')
local holder = redis.call('GET', KEYS[1])
local last = redis.call('GET', KEYS[2])
if holder == ARGV[1] then -- a lost reply is asked for again
  if not last then return {2} end
  return {1, last, time[1], time[2]}
end
if holder then return {0, holder, redis.call('PTTL', KEYS[1])} end

-- The server's microseconds keep fences growing when the counter was lost; below 2^53 they are exact numbers here.
local fence = math.max(tonumber(last or '0') + 1, tonumber(time[1]) * 1000000 + tonumber(time[2]))
local text = string.format('%.0f', fence)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX')
redis.call('SET', KEYS[2], text, 'PX', ARGV[3])
return {1, text, time[1], time[2]}
