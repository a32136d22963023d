-- Deletes a lock if it carries the token.
-- KEYS: lock.  ARGV: token.
-- Reply: 1 released, 0 the key is gone, or the other holder's token.
local holder = redis.call('GET', KEYS[1])
if not holder then return 0 end
if holder ~= ARGV[1] then return holder end
redis.call('DEL', KEYS[1])
return 1
