-- Deletes a lock if it carries the token; where others stand in line, it is the first one's turn then.
-- KEYS: lock, turn, line.  ARGV: token, window in ms of a turn, keep in ms of the line.
-- Reply: 1 released, 0 the key is gone, or the other holder's token.
local holder = redis.call('GET', KEYS[1])
if not holder then return 0 end
if holder ~= ARGV[1] then return holder end
if redis.call('DEL', KEYS[1], KEYS[2]) == 2 then
  local time = redis.call('TIME')
  pass(time[1] * 1000 + math.floor(time[2] / 1000), KEYS[2], KEYS[3], ARGV[2], ARGV[3])
end
return 1
