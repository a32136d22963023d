package experiments

import (
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
	"github.com/lockdrill/lockdrill/lockcore"
)

// policyCheck names a policy's values by their path: in the lock's policy section, or beside its profile.
type policyCheck struct {
	*checker
	path string // of the lock
}

func (c policyCheck) refuse(broken bool, name, format string, args ...any) bool {
	at := c.path + "." + name
	if c.Node(at) == nil {
		at = c.path + ".policy." + name
	}
	return c.Refuse(broken, at, format, args...)
}

// minTTL is the shortest lease, as run: Redis counts expiry in milliseconds.
const minTTL = 10 * time.Millisecond

// policy checks that a lock's timings make sense together. What they cost is not asked here: bad policies are what drills are for.
func (c *checker) policy(path string, l *Lock) {
	pc, p, known := policyCheck{c, path}, &l.Policy, c.Problems()
	pc.refuse(vocab.Scaled(p.TTL, c.e.TimeScale) < minTTL, "ttl", "%s at time_scale %g is under %dms: too short for a lease", figures.Spell(p.TTL), c.e.TimeScale, minTTL.Milliseconds())
	if c.Problems() == known { // else the scale is wrong
		pc.paces(p)
	}
	pc.together(p)
}

// paces refuses periods and timeouts that nobody can keep, as they are run: a worker would end, or no call would ever be answered.
func (c policyCheck) paces(p *lockcore.Policy) {
	kept := func(name string, pace time.Duration) {
		_ = pace == 0 || vocab.Scaled(pace, c.e.TimeScale) >= shortest ||
			c.refuse(pace < shortest, name, "%s is too short: at least %dms", figures.Spell(pace), shortest.Milliseconds()) ||
			c.refuse(true, name, "%s at time_scale %g is too short: at least %dms as it is run", figures.Spell(pace), c.e.TimeScale, shortest.Milliseconds())
	}
	kept("renew_every", p.RenewEvery)
	kept("op_timeout", p.OpTimeout)
	kept("acquire.timeout", p.Acquire.Timeout)
	kept("acquire.backoff.every", p.Acquire.Backoff.Every)
	kept("release.timeout", p.Release.Timeout)
	switch {
	case p.Loop != nil && c.Node(c.path+".poll") != nil:
		kept("poll", p.Loop.Poll)
	case p.Loop != nil:
		kept("loop.poll", p.Loop.Poll)
	}
}

// together holds the values of a policy against one another.
func (c policyCheck) together(p *lockcore.Policy) {
	r, a, b := &p.Release, &p.Acquire, &p.Acquire.Backoff
	grows := b.Mode == lockcore.BackoffDecorrelated || b.Mode == lockcore.BackoffWake
	c.refuse(p.Drift+p.StopBudget >= p.TTL, "ttl", "%s is used up by drift %s and stop_budget %s", figures.Spell(p.TTL), figures.Spell(p.Drift), figures.Spell(p.StopBudget))
	c.refuse(p.RenewEvery > 0 && p.RenewEvery >= p.TTL, "renew_every", "%s is not under the ttl %s: the lease would end first", figures.Spell(p.RenewEvery), figures.Spell(p.TTL))
	c.refuse(a.Mode == lockcore.AcquireWait && grows && b.Cap < b.Every, "acquire.backoff.cap", "the longest pause must be at least the shortest, %s", figures.Spell(b.Every))
	if l := p.Loop; l != nil {
		if mode := c.path + ".policy.acquire.mode"; a.Mode == lockcore.AcquireWait && !c.Invalid(mode) {
			c.Add(mode, c.Place(mode), "a leader loop tries once a poll: mode try") // and what wait needs is not asked
		}
		_ = c.refuse(l.Mode == lockcore.LoopRenewed && p.RenewEvery == 0, "loop.mode", "renewed needs a renew_every above 0s") ||
			c.refuse(l.Mode == lockcore.LoopTTLHold && r.Mode != lockcore.ReleaseNone, "release.mode", "ttl_hold leaves the key to its TTL: release none") ||
			c.refuse(l.Mode == lockcore.LoopExplicit && r.Mode == lockcore.ReleaseNone, "release.mode", "explicit releases after every tick: release single or bounded_retry")
	}
}

// neverRenewed says why no holder of the lock ever renews it, or "".
func (c *checker) neverRenewed(l *Lock) string {
	p := &l.Policy
	first := time.Duration(float64(p.RenewEvery) * (1 - p.RenewJitter))
	if p.RenewEvery == 0 {
		return fmt.Sprintf("lock %s is not renewed (renew_every 0s)", l.Name)
	}
	if l.Loop() {
		if p.Loop.Mode != lockcore.LoopRenewed && p.Loop.Tick <= first {
			return fmt.Sprintf("lock %s is renewed only during a tick, and a tick of %s ends before the first renewal after %s",
				l.Name, figures.Spell(p.Loop.Tick), figures.Spell(first))
		}
		return ""
	}
	if w := c.e.WorkUnder(l.Name); w != nil {
		if constant, longest := w.constant(), w.Longest(); constant && longest > 0 && longest <= first {
			return fmt.Sprintf("work of %s under lock %s ends before the first renewal after %s",
				figures.Spell(longest), l.Name, figures.Spell(first))
		}
	}
	return ""
}
