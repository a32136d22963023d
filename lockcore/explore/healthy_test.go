package explore

import (
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Much is allocated here and little is kept.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

const step = time.Second

// policy is one whose every timer is on the grid: renewed every TTL/4, each call for TTL/4 at most, TTL/4 taken off for drift.
func policy(class lockcore.Class) lockcore.Policy {
	return lockcore.Policy{
		TTL: Grid * step, RenewEvery: step, Class: class, MaxFailures: 1, OpTimeout: step, Drift: step,
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: step},
		Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: step, AfterAbandon: lockcore.AfterAbandonStopped},
	}
}

// adjusted is a policy with a change.
func adjusted(p lockcore.Policy, change func(*lockcore.Policy)) lockcore.Policy {
	change(&p)
	return p
}

// waiting is a policy whose callers wait for the key.
func waiting() lockcore.Policy {
	return adjusted(policy(lockcore.Standard), func(p *lockcore.Policy) {
		p.Acquire.Mode, p.Acquire.Budget = lockcore.AcquireWait, 3*step
		p.Acquire.Backoff = lockcore.Backoff{Mode: lockcore.BackoffFixed, Every: step}
	})
}

// left is a policy that never releases.
func left() lockcore.Policy {
	return adjusted(policy(lockcore.Standard), func(p *lockcore.Policy) { p.Release = lockcore.Release{Mode: lockcore.ReleaseNone} })
}

// deeper is how many steps further than in make test is gone: LOCKDRILL_EXPLORE says so.
func deeper(t *testing.T) int {
	text := os.Getenv("LOCKDRILL_EXPLORE")
	switch {
	case text == "" && testing.Short():
		return -4 // the race detector makes each step ten times as long
	case text == "":
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("LOCKDRILL_EXPLORE is a number of steps: %v", err)
	}
	return n
}

// Whatever comes in whatever order, the healthy lock keeps its promises.
func TestNoInterleavingBreaksAPromise(t *testing.T) {
	stopping := adjusted(policy(lockcore.Critical), func(p *lockcore.Policy) { p.Drift, p.StopBudget, p.RenewEvery = 0, step, 2*step })
	for _, c := range []struct {
		name  string
		depth int
		w     World
	}{
		{"critical, in time", 15, World{Policy: policy(lockcore.Critical), Refused: true}},
		{"critical, in time, with a stop budget", 14, World{Policy: stopping, Refused: true, GiveUps: true}},
		{"standard, waiting for the key", 14, World{Policy: waiting()}},
		{"standard, waiting with a whole last try, until a try fails", 12, World{Policy: impatient()}},
		{"standard, pauses", 14, World{Policy: policy(lockcore.Standard), Pauses: true}},
		{"critical, messages twice", 12, World{Policy: policy(lockcore.Critical), Twice: true, Refused: true}},
		{"standard, clocks apart", 13, World{Policy: policy(lockcore.Standard), Drift: true}},
		{"standard, left to its TTL, pauses", 14, World{Policy: left(), Pauses: true}},
		{"continuity, deaths and pauses", 12, World{Policy: policy(lockcore.Continuity), Pauses: true, Deaths: true}},
		{"critical, the store loses all, or somebody deletes the key", 12, World{Policy: policy(lockcore.Critical), Flush: true, Delete: true}},
		{"critical, all at once", 11, World{Policy: policy(lockcore.Critical), Pauses: true, Twice: true, Refused: true}},
		{"three contenders, in time", 11, World{Policy: policy(lockcore.Critical), Contenders: 3}},
		{"three contenders, pauses", 10, World{Policy: policy(lockcore.Standard), Contenders: 3, Pauses: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.w.Contenders = max(c.w.Contenders, 2)
			report(t, c.w, c.depth+deeper(t), "")
		})
	}
}

// impatient is a policy whose callers wait for the key as published code does, but give back what they may have got.
func impatient() lockcore.Policy {
	return adjusted(waiting(), func(p *lockcore.Policy) {
		p.Acquire.OnError, p.Acquire.LastTry = lockcore.OnErrorFail, lockcore.LastTryWhole
	})
}

// An acquire that the policy does not undo is the one promise that published code breaks while it waits.
func TestAnAcquireThatIsNotUndone(t *testing.T) {
	p := impatient()
	p.Acquire.Undo = lockcore.UndoNone
	report(t, World{Contenders: 2, Policy: p}, 4, Undone)
}

// report explores a world and holds what it finds to what it should find.
func report(t *testing.T, w World, depth int, want string) Found {
	t.Helper()
	began := time.Now()
	f := w.Search(depth).Run()
	t.Logf("%d steps deep: %d states, %d transitions, %.2fs; %q", f.Depth, f.States, f.Transitions, time.Since(began).Seconds(), f.Broken)
	for _, line := range f.Trace {
		t.Log(line)
	}
	if f.Broken != want {
		t.Errorf("%q, not %q: %+v", f.Broken, want, w.Policy)
	}
	return f
}
