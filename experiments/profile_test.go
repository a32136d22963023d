package experiments

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// TestProfiles pins the published numbers: TTL, renewal, failures, poll, key, and what each call has.
func TestProfiles(t *testing.T) {
	s := time.Second
	single := lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: 2 * s, AfterAbandon: lockcore.AfterAbandonSkip}
	once := lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 2 * s, Undo: lockcore.UndoNone}
	calls := map[string]struct {
		op      time.Duration
		release lockcore.Release
		acquire lockcore.Acquire
	}{
		"cordum/scheduler-job": {2 * s, lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: 2 * s, Retry: lockcore.RetryAtOnce, AfterAbandon: lockcore.AfterAbandonSkip}, once},
		"cordum/workflow-run":  {2 * s, single, once},
		"cordum/approval": {0, single, lockcore.Acquire{Mode: lockcore.AcquireWait, Timeout: 2 * s, Budget: 2 * s, Backoff: lockcore.Backoff{Mode: lockcore.BackoffFixed, Every: 25 * time.Millisecond},
			Undo: lockcore.UndoNone, OnError: lockcore.OnErrorFail, LastTry: lockcore.LastTryWhole}},
		"cordum/snapshot-writer": {2 * s, single, once},
	}
	want := map[string]struct {
		key        string
		ttl, renew time.Duration
		class      lockcore.Class
		failures   int
		release    lockcore.ReleaseMode
		poll       time.Duration
		loop       lockcore.LoopMode
	}{
		"cordum/scheduler-job":        {"cordum:scheduler:job:", 60 * s, 20 * s, lockcore.LegacyCount, 3, lockcore.ReleaseBoundedRetry, 0, ""},
		"cordum/workflow-run":         {"cordum:wf:run:lock:", 30 * s, 10 * s, lockcore.LegacyWarn, 0, lockcore.ReleaseSingle, 0, ""},
		"cordum/approval":             {"cordum:approval:", 10 * s, 0, lockcore.LegacyWarn, 0, lockcore.ReleaseSingle, 0, ""},
		"cordum/scheduler-reconciler": {"cordum:reconciler:default", 60 * s, 20 * s, lockcore.LegacyWarn, 0, lockcore.ReleaseNone, 30 * s, lockcore.LoopTTLHold},
		"cordum/pending-replayer":     {"cordum:replayer:pending", 60 * s, 0, lockcore.LegacyWarn, 0, lockcore.ReleaseNone, 30 * s, lockcore.LoopTTLHold},
		"cordum/workflow-reconciler":  {"cordum:workflow-engine:reconciler:default", 10 * s, 0, lockcore.LegacyWarn, 0, lockcore.ReleaseNone, 5 * s, lockcore.LoopTTLHold},
		"cordum/delay-poller":         {"cordum:wf:delay:poller", 10 * s, 0, lockcore.LegacyWarn, 0, lockcore.ReleaseNone, 5 * s, lockcore.LoopTTLHold},
		"cordum/snapshot-writer":      {"cordum:scheduler:snapshot:writer", 30 * s, 0, lockcore.LegacyWarn, 0, lockcore.ReleaseSingle, 5 * s, lockcore.LoopExplicit},
		"kubernetes/leader-election":  {"leader-election", 15 * s, 2 * s, lockcore.Standard, 0, lockcore.ReleaseNone, 3200 * time.Millisecond, lockcore.LoopRenewed},
		"lockdrill/critical":          {"lockdrill:critical:", 30 * s, 10 * s, lockcore.Critical, 2, lockcore.ReleaseBoundedRetry, 0, ""},
		"lockdrill/standard":          {"lockdrill:standard:", 30 * s, 10 * s, lockcore.Standard, 2, lockcore.ReleaseBoundedRetry, 0, ""},
		"lockdrill/continuity":        {"lockdrill:continuity:", 30 * s, 10 * s, lockcore.Continuity, 2, lockcore.ReleaseBoundedRetry, 0, ""},
	}
	names := ProfileNames()
	if len(names) != len(want) {
		t.Errorf("profiles %v, want %d", names, len(want))
	}
	for _, name := range names {
		l, err := Profile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		p, w := l.Policy, want[name]
		var poll time.Duration
		var mode lockcore.LoopMode
		if p.Loop != nil {
			poll, mode = p.Loop.Poll, p.Loop.Mode
		}
		if l.Key+l.KeyPrefix != w.key || p.TTL != w.ttl || p.RenewEvery != w.renew || p.Class != w.class || p.MaxFailures != w.failures ||
			p.Release.Mode != w.release || poll != w.poll || mode != w.loop || l.Profile != name {
			t.Errorf("%s is %+v, want %+v", name, l, w)
		}
		published, loop := strings.HasPrefix(name, "cordum/"), p.Loop != nil
		if (p.Acquire.Undo == lockcore.UndoNone) != published || l.Unfenced != (published && loop) || loop && (p.Loop.Effect == lockcore.EffectAfter) != published {
			t.Errorf("%s is published: %t, and its policy is %+v, unfenced: %t", name, published, p, l.Unfenced)
		}
		c, special := calls[name]
		if !special {
			c.op, c.release, c.acquire = 2*s, lockcore.Release{Mode: lockcore.ReleaseNone, AfterAbandon: lockcore.AfterAbandonSkip}, once
		}
		if published && (p.OpTimeout != c.op || p.Release != c.release || p.Acquire != c.acquire) {
			t.Errorf("%s has calls of %s, releases with %+v and acquires with %+v, want %+v", name, p.OpTimeout, p.Release, p.Acquire, c)
		}
	}
}

// TestProfilesMakeSense: the checks that a file's own policy must pass, a shipped one passes too.
func TestProfilesMakeSense(t *testing.T) {
	for _, name := range ProfileNames() {
		l, err := Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		c := &checker{File: vocabulary.Blank(name), e: &Experiment{}}
		pc := policyCheck{c, "profile"}
		pc.together(&l.Policy)
		if err := errors.Join(c.Err(), l.Policy.Validate()); err != nil {
			t.Error(err)
		}
	}
}

func TestProfileUnknown(t *testing.T) {
	for _, name := range []string{"", "cordum", "cordum/", "../profile", "cordum/scheduler-jbo"} {
		if _, err := Profile(name); err == nil || !strings.Contains(err.Error(), "unknown profile") {
			t.Errorf("Profile(%q): %v", name, err)
		}
	}
}

func TestOverridesLeaveTheProfileAlone(t *testing.T) {
	text := strings.Replace(good(t), "profile: cordum/scheduler-reconciler", "profile: cordum/scheduler-reconciler, key: mine, ttl: 90s, poll: 45s", 1)
	e, err := Parse("o.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	l := e.System.Locks[1]
	if l.Key != "mine" || l.Policy.TTL != 90*time.Second || l.Policy.Loop.Poll != 45*time.Second || l.Policy.RenewEvery != 20*time.Second {
		t.Errorf("overridden: %+v %+v", l, l.Policy.Loop)
	}
	base, err := Profile("cordum/scheduler-reconciler")
	if err != nil || base.Policy.TTL != time.Minute || base.Policy.Loop.Poll != 30*time.Second {
		t.Errorf("the profile has changed: %+v (%v)", base, err)
	}
}
