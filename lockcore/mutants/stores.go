package mutants

import (
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Stores whose rules are not the core's.
const (
	StoreBlindRelease Store = "blind-release" // deletes whatever it finds
	StoreBlindRenew   Store = "blind-renew"   // extends whatever it finds
	StoreTwoSteps     Store = "two-steps"     // sets a key without an end; a renewal gives it one
	StoreCounter      Store = "counter"       // counts fences, and from 1 again when the count is lost
	StoreLonger       Store = "longer"        // grants and extends for twice the time that it was asked for
	StoreRecreate     Store = "recreate"      // a renewal sets a key that is gone
)

// stores are mistakes in the store's scripts.
func stores() []Mutant {
	return []Mutant{
		{Name: "blind-release", Told: "foreign_releases vanished", Does: "releases without a look at the token",
			Shows: []Show{{Scene: "pause > ttl", Red: "foreign_releases overlap.work vanished", Also: "abandonment.missed finding: finding:feigned_release finding:vanished lock_debt.max orphan_acquires overlap.effect takeover.max unowned_work"}}, Store: StoreBlindRelease,
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return blindRelease{t} }}},
		{Name: "blind-renew", Told: "renewed_of_another foreign_renewals", Does: "renews without a look at the token",
			Shows: []Show{{Scene: "pause > ttl", Red: "foreign_renewals", Also: "abandonment.missed fence_lag finding: finding:feigned_renewal overlap.work unowned_work"}}, Store: StoreBlindRenew,
			Policy: func(p *lockcore.Policy) {
				p.Class = lockcore.LegacyCount
				p.Release.AfterAbandon = lockcore.AfterAbandonSkip
			},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return blindRenew{t} }}},
		{Name: "setnx-then-expire", Told: "no_expiry", Does: "sets the key first, and gives it an end with a second command",
			Shows: []Show{{Scene: "kill after grant", Red: "finding:no_expiry takeover.max", Also: "stranded"}}, Store: StoreTwoSteps,
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return twoSteps{t} },
				Attempt: func(p lockcore.Policy) lockcore.Attempt { return &expireLater{Machine: lockcore.NewMachine(p), p: p} }}},
		{Name: "fence-counter", Does: "mints fences from a counter that can be lost",
			Shows: []Show{{Scene: "flush", Red: "fence_regressions", Also: "duplicate_terminal_states finding:equal_fence overlap.effect stale_writes"}}, Store: StoreCounter,
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return &counter{Table: t, last: map[string]int64{}} }}},
		{Name: "long-lease", Does: "is granted leases twice as long as it says", Store: StoreLonger,
			Shows:   []Show{{Scene: "leader killed", Red: "takeover.max", Also: "finding: tick_gap.max"}},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return longer{t} }}},
		{Name: "re-creates", Does: "sets the key again when a renewal finds it gone",
			Shows: []Show{{Scene: "key deleted, nobody asks", Red: "finding:token_reuse", Also: "loss_to_fence"}}, Store: StoreRecreate,
			Policy: func(p *lockcore.Policy) {
				p.Class = lockcore.LegacyCount
				p.Release.AfterAbandon = lockcore.AfterAbandonSkip
			},
			Variant: lockcore.Variant{Rules: func(t *lockcore.Table) lockcore.Rules { return recreate{t} }}},
		{Name: "unguarded-release", Does: "releases what it has given up, without a look at the token",
			Shows: []Show{{Scene: "renewals fail > ttl", Red: "foreign_releases", Also: "abandonment.late abandonment.missed fence_lag finding: finding:vanished loss_to_fence not_owned.release not_owned.renew overlap.belief overlap.work stranded takeover.max unowned_work vanished"}}, Store: StoreBlindRelease,
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

type longer struct{ *lockcore.Table }

func (t longer) Acquire(now time.Time, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	return t.Table.Acquire(now, key, token, 2*ttl)
}

func (t longer) Renew(now time.Time, key, token string, ttl time.Duration) error {
	return t.Table.Renew(now, key, token, 2*ttl)
}

type recreate struct{ *lockcore.Table }

func (t recreate) Renew(now time.Time, key, token string, ttl time.Duration) error {
	if _, _, held := t.Holder(now, key); !held {
		_, err := t.Table.Acquire(now, key, token, ttl)
		return err
	}
	return t.Table.Renew(now, key, token, ttl)
}
