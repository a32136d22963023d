-- Writes one effect at the ledger, or refuses it, and records it either way. Any Redis client may run it.
--
-- KEYS: 1 entries (stream), 2 marks (hash: lock key -> highest accepted fence),
--       3 subjects (hash: subject -> "terminal fence state"), 4 answers (hash: op -> first answer),
--       5 optional: the lock itself, where lock and ledger share one store.
-- ARGV: 1 lock key (its name), 2 subject, 3 loop, 4 state, 5 terminal, 6 epoch (fingerprint), 7 fence, 8 op, 9 writer,
--       10 unfenced, 11 strict, 12 with KEYS[5]: the writer's token.  Flags are 0 or 1; fences are decimal integers.
-- Reply: {pos, accepted, reason, state before, terminal before, fence before}: numbers, except reason and state.
--        reason: "" | fenced | terminal (refused) | replay (this op was accepted before: its first answer, no new effect).
-- Entry: id "<pos>-0", pos = 1, 2, 3 ...; fields as the ARGV names, then accepted, reason and
--        named = self | other | none (whom KEYS[5] named), "" where it was not asked.
local key, subject, loop, state, terminal = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local epoch, fence, op, writer, unfenced, strict = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]

local first = redis.call('HGET', KEYS[4], op)
if first then
  local pos, ok, reason, term, fnc, st = string.match(first, '^(%d+) (%d) (%a*) (%d) (%-?%d+) (.*)$')
  if ok == '1' then reason = 'replay' end
  return {tonumber(pos), tonumber(ok), reason, st, tonumber(term), tonumber(fnc)}
end

local before = redis.call('HGET', KEYS[3], subject) or '0 0 '
local wasTerminal, wasFence, wasState = string.match(before, '^(%d) (%-?%d+) (.*)$')
local mark = redis.call('HGET', KEYS[2], key)

local reason = ''
if unfenced ~= '1' and tonumber(fence) < tonumber(mark or '0') then
  reason = 'fenced'
elseif strict == '1' and terminal == '1' and wasTerminal == '1' then
  reason = 'terminal'
end
local accepted = reason == '' and '1' or '0'

local named = ''
if KEYS[5] then
  local holder = redis.call('GET', KEYS[5])
  named = not holder and 'none' or holder == ARGV[12] and 'self' or 'other'
end

local pos = redis.call('XLEN', KEYS[1]) + 1
redis.call('XADD', KEYS[1], pos .. '-0', 'key', key, 'subject', subject, 'loop', loop, 'state', state,
  'terminal', terminal, 'epoch', epoch, 'fence', fence, 'op', op, 'writer', writer,
  'accepted', accepted, 'reason', reason, 'named', named)
redis.call('HSET', KEYS[4], op, string.format('%d %s %s %s %s %s', pos, accepted, reason, wasTerminal, wasFence, wasState))
if accepted == '1' then
  if not mark or tonumber(fence) > tonumber(mark) then redis.call('HSET', KEYS[2], key, fence) end
  if state ~= 'begin' and state ~= 'tick' then
    redis.call('HSET', KEYS[3], subject, string.format('%s %s %s', terminal, fence, state))
  end
end
return {pos, tonumber(accepted), reason, wasState, tonumber(wasTerminal), tonumber(wasFence)}
