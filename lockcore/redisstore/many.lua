-- Runs acquire.lua and release.lua, which stand before it as functions, for many locks at once; on a single server only, where keys
-- need not share a slot. One that fails does not fail the others.
-- KEYS: those of each script in turn.  ARGV: "a" or "r" for each script, as one string; then three of each script.
-- Reply: that of each script, or {message} where it failed.
local replies, k = {}, 1
for i = 1, #ARGV[1] do
  local run, n = release, 3
  if string.byte(ARGV[1], i) == 97 then run, n = acquire, 2 end
  local a = 3 * i
  local ok, reply = pcall(run, {KEYS[k], KEYS[k + 1], KEYS[k + n - 1]}, {ARGV[a - 1], ARGV[a], ARGV[a + 1]})
  if not ok then reply = {type(reply) == 'table' and reply.err or reply} end
  replies[i], k = reply, k + n
end
return replies
