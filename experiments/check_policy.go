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

func (c policyCheck) wrong(name, format string, args ...any) {
	if short := c.path + "." + name; c.Node(short) != nil {
		c.Check(short, format, args...)
		return
	}
	c.Check(c.path+".policy."+name, format, args...)
}

// minTTL is the shortest lease, as run: Redis counts expiry in milliseconds.
const minTTL = 10 * time.Millisecond

// policy checks that a lock's timings make sense together. What they cost is not asked here: bad policies are what drills are for.
func (c *checker) policy(path string, l *Lock) {
	pc, known := policyCheck{c, path}, c.Problems()
	if ttl := vocab.Scaled(l.Policy.TTL, c.e.TimeScale); ttl < minTTL {
		pc.wrong("ttl", "%s at time_scale %g is under %dms: too short for a lease", figures.Spell(l.Policy.TTL), c.e.TimeScale, minTTL.Milliseconds())
	}
	if c.Problems() == known { // else the scale is wrong
		pc.paces(&l.Policy)
	}
	pc.renewal(&l.Policy)
	pc.release(&l.Policy)
	pc.acquire(&l.Policy)
	if l.Loop() {
		pc.loop(&l.Policy)
	}
	// The lock core has the last word; above is what can be said better, at its line.
	if err := l.Policy.Validate(); err != nil && c.Problems() == known {
		c.Check(path, "%v", err)
	}
}

// paces refuses periods and timeouts that nobody can keep, as they are run: a worker would end, or no call would ever be answered.
func (c policyCheck) paces(p *lockcore.Policy) {
	type pace struct {
		name string
		time time.Duration
	}
	paces := []pace{{"renew_every", p.RenewEvery}, {"op_timeout", p.OpTimeout}, {"acquire.timeout", p.Acquire.Timeout},
		{"acquire.backoff.every", p.Acquire.Backoff.Every}, {"release.timeout", p.Release.Timeout}}
	if p.Loop != nil {
		poll := "loop.poll"
		if c.Node(c.path+".poll") != nil {
			poll = "poll"
		}
		paces = append(paces, pace{poll, p.Loop.Poll})
	}
	for _, x := range paces {
		switch {
		case x.time == 0 || vocab.Scaled(x.time, c.e.TimeScale) >= shortest:
		case x.time < shortest:
			c.wrong(x.name, "%s is too short: at least %dms", figures.Spell(x.time), shortest.Milliseconds())
		default:
			c.wrong(x.name, "%s at time_scale %g is too short: at least %dms as it is run", figures.Spell(x.time), c.e.TimeScale, shortest.Milliseconds())
		}
	}
}

func (c policyCheck) renewal(p *lockcore.Policy) {
	if p.Drift+p.StopBudget >= p.TTL {
		c.wrong("ttl", "%s is used up by drift %s and stop_budget %s", figures.Spell(p.TTL), figures.Spell(p.Drift), figures.Spell(p.StopBudget))
	}
	if p.RenewEvery == 0 {
		return
	}
	if p.RenewEvery >= p.TTL {
		c.wrong("renew_every", "%s is not under the ttl %s: the lease would end first", figures.Spell(p.RenewEvery), figures.Spell(p.TTL))
	}
	if counts := p.Class == lockcore.LegacyCount || p.Class == lockcore.Critical; counts && p.MaxFailures == 0 {
		c.wrong("max_failures", "missing: class %s gives up after so many failures in a row", p.Class)
	}
}

func (c policyCheck) release(p *lockcore.Policy) {
	r := &p.Release
	if r.Mode != lockcore.ReleaseNone && r.Timeout == 0 {
		c.wrong("release.timeout", "missing: release %s needs it", r.Mode)
	}
	if r.Mode != lockcore.ReleaseBoundedRetry && r.Retry != "" {
		c.wrong("release.retry", "is for mode bounded_retry: release %s is tried once at most", r.Mode)
	}
	if r.Mode == lockcore.ReleaseBoundedRetry && r.Attempts == 0 {
		c.wrong("release.attempts", "missing: release bounded_retry needs it")
	}
}

func (c policyCheck) acquire(p *lockcore.Policy) {
	a := &p.Acquire
	if a.Mode == lockcore.AcquireTry {
		if a.Budget > 0 || a.Backoff.Mode != "" {
			c.wrong("acquire", "budget and backoff are for mode wait")
		}
		for name, given := range map[string]bool{"on_error": a.OnError != "", "last_try": a.LastTry != ""} {
			if given {
				c.wrong("acquire."+name, "is for mode wait: with mode try there is one try, whole, and its result is the answer")
			}
		}
		return
	}
	if a.Budget == 0 {
		c.wrong("acquire.budget", "missing: mode wait gives up after so long")
	}
	switch a.Backoff.Mode {
	case "":
		c.wrong("acquire.backoff", "missing: mode wait pauses between its tries")
	case lockcore.BackoffDecorrelated, lockcore.BackoffWake:
		if a.Backoff.Cap < a.Backoff.Every {
			c.wrong("acquire.backoff.cap", "the longest pause must be at least the shortest, %s", figures.Spell(a.Backoff.Every))
		}
	}
}

func (c policyCheck) loop(p *lockcore.Policy) {
	switch {
	case p.Acquire.Mode != lockcore.AcquireTry:
		c.wrong("acquire.mode", "a leader loop tries once a poll: mode try")
	case p.Loop.Mode == lockcore.LoopRenewed && p.RenewEvery == 0:
		c.wrong("loop.mode", "renewed needs a renew_every above 0s")
	case p.Loop.Mode == lockcore.LoopTTLHold && p.Release.Mode != lockcore.ReleaseNone:
		c.wrong("release.mode", "ttl_hold leaves the key to its TTL: release none")
	case p.Loop.Mode == lockcore.LoopExplicit && p.Release.Mode == lockcore.ReleaseNone:
		c.wrong("release.mode", "explicit releases after every tick: release single or bounded_retry")
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
