package experiments

import (
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// assumed is a policy that is being completed, and what it was completed with, in the words of the file.
type assumed struct {
	*lockcore.Policy
	said []string
}

func (a *assumed) say(format string, args ...any) {
	a.said = append(a.said, fmt.Sprintf(format, args...))
}

// CallOf is how long one call to the store may take where nobody says: a fifth of the lease, from 10 ms to 2 s.
func CallOf(ttl time.Duration) time.Duration {
	return min(2*time.Second, max(10*time.Millisecond, (ttl/5).Round(10*time.Millisecond)))
}

// shortPolicy makes a policy of a lock that names its times alone. With a poll it is a leader loop.
func shortPolicy(o *overrides) assumed {
	a := assumed{Policy: &lockcore.Policy{TTL: *o.TTL, RenewEvery: *o.TTL / 3, RenewJitter: 0.1}}
	if o.RenewEvery == nil {
		a.say("renew_every %s", figures.Spell(a.RenewEvery))
	}
	if o.RenewJitter == nil && (o.RenewEvery == nil || *o.RenewEvery > 0) {
		a.say("renew_jitter %g", a.RenewJitter)
	}
	if o.Poll != nil {
		a.Loop = &lockcore.Loop{Jitter: 0.1, Mode: lockcore.LoopRenewed}
	}
	o.apply(a.Policy)
	if a.RenewEvery == 0 {
		a.RenewJitter = 0
	}
	if a.Loop != nil {
		if a.RenewEvery == 0 {
			a.Loop.Mode = lockcore.LoopTTLHold
		}
		hint := ""
		if a.Loop.Mode == lockcore.LoopRenewed && 10*a.Loop.Poll < a.TTL { // so short a wait is rather that of a loop that gives its lock back
			hint = " (where each tick gives the lock back: policy: {..., loop: {poll: ..., mode: explicit}})"
		}
		a.say("loop mode %s%s, jitter %g", a.Loop.Mode, hint, a.Loop.Jitter)
	}
	a.fill()
	return a
}

// fill completes what a policy may leave out.
func (a *assumed) fill() {
	call := CallOf(a.TTL)
	if a.Class == "" {
		a.Class = lockcore.Standard
		a.say("class %s", a.Class)
	}
	if a.OpTimeout == 0 && a.RenewEvery > 0 {
		a.OpTimeout = call
		a.say("op_timeout %s", figures.Spell(call))
	}
	switch {
	case a.Release != lockcore.Release{}:
	case a.Loop != nil && a.Loop.Mode == lockcore.LoopTTLHold:
		a.Release.Mode = lockcore.ReleaseNone
		a.say("release none")
	default:
		a.Release = lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: call}
		a.say("release bounded_retry (2 tries of %s)", figures.Spell(call))
	}
	if a.Acquire == (lockcore.Acquire{}) {
		a.Acquire = lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: call}
		a.say("acquire try (timeout %s)", figures.Spell(call))
	}
	if a.Release.AfterAbandon == "" {
		a.Release.AfterAbandon = lockcore.AfterAbandonSkip
	}
}
