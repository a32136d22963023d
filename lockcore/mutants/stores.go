package mutants

import (
	"context"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Scripts of stores: the same mistakes as the rules of their names below.
const (
	luaBlindRelease = `return redis.call('DEL', KEYS[1])`
	luaBlindRenew   = `return redis.call('PEXPIRE', KEYS[1], ARGV[2])`
	luaHeld         = `return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}`
	luaTwoSteps     = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX') then
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
` + luaHeld
	luaCounter = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end
` + luaHeld
	luaRecreate = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`
)

// stores are mistakes in the store's scripts.
func stores() []Mutant {
	return []Mutant{
		{Name: "blind-release", Told: "foreign_releases vanished", Does: "releases without a look at the token",
			Shows:   []Show{{Scene: "pause > ttl", Red: "foreign_releases overlap.work vanished", Also: "abandonment.missed finding: finding:feigned_release finding:vanished lock_debt.max orphan_acquires overlap.effect takeover.max unowned_work"}},
			Lua:     map[lockcore.Op]string{lockcore.OpRelease: luaBlindRelease},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return blindRelease{t} }}},
		{Name: "blind-renew", Told: "renewed_of_another foreign_renewals", Does: "renews without a look at the token",
			Shows: []Show{{Scene: "pause > ttl", Red: "foreign_renewals", Also: "abandonment.missed fence_lag finding: finding:feigned_renewal overlap.work unowned_work"}},
			Lua:   map[lockcore.Op]string{lockcore.OpRenew: luaBlindRenew},
			Policy: func(p *lockcore.Policy) {
				p.Class = lockcore.LegacyCount
				p.Release.AfterAbandon = lockcore.AfterAbandonSkip
			},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return blindRenew{t} }}},
		{Name: "setnx-then-expire", Told: "no_expiry", Does: "sets the key first, and gives it an end with a second command",
			Shows: []Show{{Scene: "kill after grant", Red: "finding:no_expiry takeover.max", Also: "stranded"}},
			Lua:   map[lockcore.Op]string{lockcore.OpAcquire: luaTwoSteps},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return twoSteps{t} },
				Attempt: func(p lockcore.Policy) lockcore.Attempt { return &expireLater{Machine: lockcore.NewMachine(p), p: p} }}},
		{Name: "fence-counter", Does: "mints fences from a counter that can be lost",
			Shows:   []Show{{Scene: "flush", Red: "fence_regressions", Also: "duplicate_terminal_states finding:equal_fence overlap.effect stale_writes"}},
			Lua:     map[lockcore.Op]string{lockcore.OpAcquire: luaCounter},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return &counter{Table: t, last: map[string]int64{}} }}},
		{Name: "long-lease", Does: "is granted leases twice as long as it says",
			Shows:   []Show{{Scene: "leader killed", Red: "takeover.max", Also: "finding: tick_gap.max"}},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return longer[time.Time]{t} }},
			Store:   func(core lockcore.Store, _ func() time.Time) lockcore.Store { return longer[context.Context]{core} }},
		{Name: "re-creates", Does: "sets the key again when a renewal finds it gone",
			Shows: []Show{{Scene: "key deleted, nobody asks", Red: "finding:token_reuse", Also: "loss_to_fence"}},
			Lua:   map[lockcore.Op]string{lockcore.OpRenew: luaRecreate},
			Policy: func(p *lockcore.Policy) {
				p.Class = lockcore.LegacyCount
				p.Release.AfterAbandon = lockcore.AfterAbandonSkip
			},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return recreate{t} }}},
		{Name: "unguarded-release", Does: "releases what it has given up, without a look at the token",
			Shows: []Show{{Scene: "renewals fail > ttl", Red: "foreign_releases", Also: "abandonment.late abandonment.missed fence_lag finding: finding:vanished loss_to_fence not_owned.release not_owned.renew overlap.belief overlap.work stranded takeover.max unowned_work vanished"}},
			Lua:   map[lockcore.Op]string{lockcore.OpRelease: luaBlindRelease},
			Policy: func(p *lockcore.Policy) {
				p.Class, p.MaxFailures, p.Release.AfterAbandon = lockcore.LegacyCount, 4, lockcore.AfterAbandonStopped
			},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return blindRelease{t} }}},
	}
}

type blindRelease struct{ *lockcore.Table }

func (t blindRelease) Release(now time.Time, key, _ string) error {
	if _, _, held := t.Holder(now, key); !held {
		return &lockcore.NotOwnedError{}
	}
	t.Take(now, key, "", 0)
	return nil
}

type blindRenew struct{ *lockcore.Table }

func (t blindRenew) Renew(now time.Time, key, _ string, ttl time.Duration) error {
	token, _, held := t.Holder(now, key)
	if !held {
		return &lockcore.NotOwnedError{}
	}
	return t.Table.Renew(now, key, token, ttl)
}

// noEnd is a lease that nobody sees the end of.
const noEnd = 100 * 365 * 24 * time.Hour

type twoSteps struct{ *lockcore.Table }

func (t twoSteps) Acquire(now time.Time, key, token string, _ time.Duration) (lockcore.Grant, error) {
	return t.Table.Acquire(now, key, token, noEnd)
}

// expireLater sends a renewal between the grant and telling of it, half an interval later: a collection of garbage comes in between.
type expireLater struct {
	*lockcore.Machine
	p     lockcore.Policy
	grant *lockcore.Input // kept back
	call  lockcore.Call   // of the acquire
	at    time.Duration
	sent  bool
}

func (m *expireLater) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	switch {
	case m.grant == nil && m.State() == lockcore.Seeking && in.Kind == lockcore.Reply && in.Call == m.call.ID && in.Result == lockcore.OK:
		m.grant, m.at = &in, now.Mono+m.p.RenewEvery/2
		return out
	case m.grant != nil && in.Kind == lockcore.Reply:
		first := *m.grant
		m.grant = nil
		return m.Machine.Step(now, first, out)
	case m.grant != nil && !m.sent && now.Mono >= m.at:
		m.sent = true
		return append(out, lockcore.Action{Kind: lockcore.ActDo, Call: lockcore.Call{
			ID: ownCalls, Op: lockcore.OpRenew, Attempt: 1, TTL: m.p.TTL, Deadline: now.Mono + m.p.OpTimeout}})
	case m.grant != nil:
		return out
	}
	from := len(out)
	out = m.Machine.Step(now, in, out)
	for _, a := range out[from:] {
		if a.Kind == lockcore.ActDo && a.Call.Op == lockcore.OpAcquire {
			m.call = a.Call
		}
	}
	return out
}

func (m *expireLater) Next() (time.Duration, bool) {
	if m.grant != nil {
		return m.at, !m.sent
	}
	return m.Machine.Next()
}

// counter mints 1, 2, 3 ... as long as the table knows of a fence at all.
type counter struct {
	*lockcore.Table
	last map[string]int64
}

func (t *counter) Acquire(now time.Time, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	before := t.Table.Fence(key)
	if before == 0 {
		delete(t.last, key)
	}
	g, err := t.Table.Acquire(now, key, token, ttl)
	if err == nil {
		if t.Table.Fence(key) != before {
			t.last[key]++
		}
		g.Fence = t.last[key]
	}
	return g, err
}

// rules are a store's: in virtual time by what time it is, in real time under a context.
type rules[C any] interface {
	Acquire(c C, key, token string, ttl time.Duration) (lockcore.Grant, error)
	Renew(c C, key, token string, ttl time.Duration) error
	Release(c C, key, token string) error
}

type longer[C any] struct{ rules[C] }

func (s longer[C]) Acquire(c C, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	return s.rules.Acquire(c, key, token, 2*ttl)
}

func (s longer[C]) Renew(c C, key, token string, ttl time.Duration) error {
	return s.rules.Renew(c, key, token, 2*ttl)
}

type recreate struct{ *lockcore.Table }

func (t recreate) Renew(now time.Time, key, token string, ttl time.Duration) error {
	if _, _, held := t.Holder(now, key); !held {
		_, err := t.Table.Acquire(now, key, token, ttl)
		return err
	}
	return t.Table.Renew(now, key, token, ttl)
}
