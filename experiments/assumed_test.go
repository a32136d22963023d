package experiments

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// A lock may be its times alone, and says what was assumed besides. What is assumed is written out in the file of a run.
func TestALockMayBeItsTimesAlone(t *testing.T) {
	const head = "apiVersion: lockdrill/v1\nkind: Experiment\nname: n\nsystem:\n  mode: embedded\n  replicas: 2\n  locks:\n    - "
	const tail = "\nfaults:\n  - {id: k, kill: {holder_of: l}}\nslos:\n  - {lock: l, abandonments: {max: 0}}\n"
	const jobs = "\n  work:\n    - {lock: l, jobs: 5, rate: 1/s, hold: {p50: 1s}, redeliver: 5s}"
	call := 2 * time.Second
	twice, once := lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: call, AfterAbandon: lockcore.AfterAbandonSkip}, lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: call}
	for _, c := range []struct {
		lock    string
		want    lockcore.Policy
		assumed string
	}{
		{"{name: l, ttl: 12s, poll: 2s}", lockcore.Policy{TTL: 12 * time.Second, RenewEvery: 4 * time.Second, RenewJitter: 0.1, Class: lockcore.Standard, OpTimeout: call, Release: twice, Acquire: once,
			Loop: &lockcore.Loop{Poll: 2 * time.Second, Jitter: 0.1, Mode: lockcore.LoopRenewed}}, "renew_every 4s, renew_jitter 0.1, loop mode renewed, jitter 0.1"},
		{"{name: l, ttl: 12s, poll: 200ms}", lockcore.Policy{TTL: 12 * time.Second, RenewEvery: 4 * time.Second, RenewJitter: 0.1, Class: lockcore.Standard, OpTimeout: call, Release: twice, Acquire: once,
			Loop: &lockcore.Loop{Poll: 200 * time.Millisecond, Jitter: 0.1, Mode: lockcore.LoopRenewed}}, "loop mode renewed (where each tick gives the lock back: policy: {..., loop: {poll: ..., mode: explicit}}), jitter 0.1"},
		{"{name: l, ttl: 12s, renew_every: 0s, poll: 2s}", lockcore.Policy{TTL: 12 * time.Second, Class: lockcore.Standard, Release: lockcore.Release{Mode: lockcore.ReleaseNone, AfterAbandon: lockcore.AfterAbandonSkip}, Acquire: once,
			Loop: &lockcore.Loop{Poll: 2 * time.Second, Jitter: 0.1, Mode: lockcore.LoopTTLHold}}, "loop mode ttl_hold"},
		{"{name: l, ttl: 1s, renew_every: 250ms, renew_jitter: 0, class: continuity, op_timeout: 50ms}" + jobs, lockcore.Policy{TTL: time.Second, RenewEvery: 250 * time.Millisecond, Class: lockcore.Continuity, OpTimeout: 50 * time.Millisecond,
			Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: 200 * time.Millisecond, AfterAbandon: lockcore.AfterAbandonSkip}, Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 200 * time.Millisecond}}, "release bounded_retry (2 tries of 200ms)"},
		{"{name: l, policy: {ttl: 12s, acquire: {mode: try, timeout: 1s}, loop: {poll: 2s, mode: ttl_hold}}}", lockcore.Policy{TTL: 12 * time.Second, Class: lockcore.Standard, Release: lockcore.Release{Mode: lockcore.ReleaseNone, AfterAbandon: lockcore.AfterAbandonSkip},
			Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: time.Second}, Loop: &lockcore.Loop{Poll: 2 * time.Second, Mode: lockcore.LoopTTLHold}}, "class standard, release none"},
	} {
		e, err := Parse("n.yaml", []byte(head+c.lock+tail))
		if err != nil {
			t.Errorf("%s: %v", c.lock, err)
			continue
		}
		l := &e.System.Locks[0]
		got, want := l.Policy, c.want
		if (got.Loop == nil) != (want.Loop == nil) || got.Loop != nil && *got.Loop != *want.Loop {
			t.Errorf("%s: loop %+v, want %+v", c.lock, got.Loop, want.Loop)
		}
		if got.Loop, want.Loop = nil, nil; got != want {
			t.Errorf("%s:\n%+v, want\n%+v", c.lock, got, want)
		}
		if said := strings.Join(l.Assumed, ", "); !strings.Contains(said, c.assumed) {
			t.Errorf("%s: assumed %q, want %q", c.lock, said, c.assumed)
		}
		resolved, err := Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("n.yaml", resolved)
		if err != nil || len(again.System.Locks[0].Assumed) > 0 || !slices.Equal(again.System.Locks[0].Policy.Describe(), l.Policy.Describe()) {
			t.Errorf("%s: the resolved file says otherwise (%v):\n%s", c.lock, err, resolved)
		}
	}
}
