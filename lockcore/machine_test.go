package lockcore_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the property tests; 0 = a new one")

// Whatever happens in whatever order, a machine keeps its promises. The walk knows what was sent and answered, and nothing else of
// the machine.
func TestMachineKeepsItsPromises(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range 4_000 {
		w := &walk{p: randomPolicy(rng), rng: rng}
		w.m = lockcore.NewMachine(w.p)
		if err := w.play(); err != nil {
			for _, l := range w.log {
				t.Log(l)
			}
			t.Fatalf("walk %d, policy %+v: %v", i, w.p, err)
		}
	}
}

func randomPolicy(rng *rand.Rand) lockcore.Policy {
	p := tracePolicy()
	p.Class = []lockcore.Class{lockcore.Critical, lockcore.Standard, lockcore.Continuity, lockcore.LegacyCount, lockcore.LegacyWarn}[rng.IntN(5)]
	p.RenewJitter, p.MaxFailures = float64(rng.IntN(2))*0.3, 1+rng.IntN(3)
	p.OpTimeout = time.Duration(1+rng.IntN(6)) * time.Second
	p.Release.Mode = []lockcore.ReleaseMode{lockcore.ReleaseNone, lockcore.ReleaseSingle, lockcore.ReleaseBoundedRetry}[rng.IntN(3)]
	p.Release.AfterAbandon = []lockcore.AfterAbandon{lockcore.AfterAbandonSkip, lockcore.AfterAbandonStopped}[rng.IntN(2)]
	if rng.IntN(2) == 0 {
		p.Acquire.Mode, p.Acquire.Budget = lockcore.AcquireWait, 5*time.Second
		p.Acquire.Backoff = lockcore.Backoff{Mode: lockcore.BackoffDecorrelated, Every: 100 * time.Millisecond, Cap: time.Second}
	}
	return p
}

// walk is one random life of a machine.
type walk struct {
	p     lockcore.Policy
	rng   *rand.Rand
	m     *lockcore.Machine
	now   time.Duration
	log   []string
	calls map[int]lockcore.Call // unanswered
	sent  map[int]time.Duration

	success                time.Duration // send time of the last ok acquire or renewal that was in time to count
	granted, refused, done bool
	stopped, fenced        bool
	owed                   int // epoch that may be held at the store without anybody's knowing
}

func (w *walk) play() error {
	w.calls, w.sent = map[int]lockcore.Call{}, map[int]time.Duration{}
	if err := w.step(lockcore.Input{Kind: lockcore.Start}); err != nil {
		return err
	}
	for range 60 {
		in := w.happen()
		if err := w.step(in); err != nil {
			return err
		}
	}
	return nil
}

// happen lets time pass and chooses what comes next.
func (w *walk) happen() lockcore.Input {
	next, ok := w.m.Next()
	waiting := w.oldest()
	switch dice := w.rng.IntN(20); {
	case waiting != 0 && (dice < 10 || !ok):
		limit := w.calls[waiting].Deadline - w.now
		w.now += min(max(limit, 0), time.Duration(w.rng.Int64N(int64(2*time.Second))))
		results := []lockcore.Result{lockcore.OK, lockcore.OK, lockcore.Failed, lockcore.Unknown, lockcore.Held, lockcore.Absent, lockcore.Other}
		r := results[w.rng.IntN(len(results))]
		if op := w.calls[waiting].Op; (op == lockcore.OpAcquire) != (r == lockcore.Held) && r != lockcore.OK && r != lockcore.Failed {
			r = lockcore.Unknown
		}
		return lockcore.Input{Kind: lockcore.Reply, Call: waiting, Result: r, Fence: 1, PTTL: time.Second}
	case dice < 17 && ok:
		w.now = max(w.now, next) + time.Duration(w.rng.IntN(2))*time.Duration(w.rng.Int64N(int64(3*time.Second))) // sometimes late
		return lockcore.Input{Kind: lockcore.Tick}
	case dice == 17 && w.granted:
		return lockcore.Input{Kind: lockcore.Stop}
	case dice == 18 && w.granted:
		return lockcore.Input{Kind: lockcore.Leave}
	case dice == 19:
		return lockcore.Input{Kind: lockcore.GiveUp}
	}
	w.now += time.Duration(w.rng.Int64N(int64(time.Second)))
	return lockcore.Input{Kind: lockcore.Tick}
}

func (w *walk) oldest() (id int) {
	for c := range w.calls {
		if id == 0 || c < id {
			id = c
		}
	}
	return id
}

func (w *walk) step(in lockcore.Input) error {
	in.Rand = w.rng.Float64()
	w.log = append(w.log, fmt.Sprintf("%s %+v", w.now, in))
	if in.Kind == lockcore.Stop || in.Kind == lockcore.Leave {
		w.stopped = true
	}
	if in.Kind == lockcore.Reply {
		c := w.calls[in.Call]
		delete(w.calls, in.Call)
		w.answered(c, in.Result)
	}
	for _, a := range w.m.Step(lockcore.Instant{Mono: w.now, Boot: w.now, Wall: w.now}, in, nil) {
		w.log = append(w.log, "  "+describe(a))
		if err := w.check(a); err != nil {
			return err
		}
	}
	return w.checkState()
}

func (w *walk) answered(c lockcore.Call, r lockcore.Result) {
	switch {
	case c.Op == lockcore.OpAcquire && (r == lockcore.OK || r == lockcore.Unknown):
		w.owed = c.Epoch
		w.success = w.sent[c.ID]
	case c.Op == lockcore.OpRenew && r == lockcore.OK && !w.fenced && !(w.stopped && w.m.State() != lockcore.Left):
		w.success = max(w.success, w.sent[c.ID])
	}
}

// check holds one action against what has happened so far.
func (w *walk) check(a lockcore.Action) error {
	if w.done {
		return fmt.Errorf("%s after the end", a.Kind)
	}
	switch a.Kind {
	case lockcore.ActGrant:
		if w.granted || w.refused {
			return fmt.Errorf("granted after an answer")
		}
		w.granted, w.owed = true, 0
	case lockcore.ActRefuse:
		if w.granted || w.refused {
			return fmt.Errorf("refused after an answer")
		}
		w.refused = true
	case lockcore.ActFence:
		if w.granted && w.fenced {
			return fmt.Errorf("fenced twice")
		}
		w.fenced = w.granted
		if a.Working && w.stopped {
			return fmt.Errorf("work abandoned that had stopped")
		}
	case lockcore.ActDone:
		w.done = true
		if !w.granted && !w.refused {
			return fmt.Errorf("ended without an answer")
		}
	case lockcore.ActDo:
		w.calls[a.Call.ID], w.sent[a.Call.ID] = a.Call, w.now
		return w.checkCall(a.Call)
	}
	return nil
}

func (w *walk) checkCall(c lockcore.Call) error {
	minds := slices.Contains([]lockcore.Class{lockcore.Critical, lockcore.Standard}, w.p.Class)
	switch {
	case c.Deadline <= w.now:
		return fmt.Errorf("%s has no time", c.Op)
	case c.Op == lockcore.OpAcquire && (w.granted || w.refused):
		return fmt.Errorf("acquire after an answer")
	case c.Op == lockcore.OpAcquire && w.owed != 0:
		return fmt.Errorf("acquire with a new token while epoch %d may be held", w.owed)
	case c.Op == lockcore.OpUndo && c.Epoch != w.owed:
		return fmt.Errorf("undo of epoch %d, owed is %d", c.Epoch, w.owed)
	case c.Op == lockcore.OpRenew && (w.stopped || w.fenced || !w.granted):
		return fmt.Errorf("renewal outside the work")
	case c.Op == lockcore.OpRenew && minds && c.Deadline > w.success+w.p.TTL-w.p.Drift:
		return fmt.Errorf("renewal until %s outlives the validity granted", c.Deadline)
	case c.Op == lockcore.OpRelease && !w.stopped:
		return fmt.Errorf("release before the work has stopped")
	}
	if c.Op == lockcore.OpUndo && c.Attempt == 3 {
		w.owed = 0 // the undo is bounded: from here on the TTL must do
	}
	return nil
}

func (w *walk) checkState() error {
	now := lockcore.Instant{Mono: w.now, Boot: w.now, Wall: w.now}
	if w.m.Held(now) && (w.now >= w.success+w.p.TTL-w.p.Drift || w.fenced || w.done) {
		return fmt.Errorf("held, but the last success was sent at %s", w.success)
	}
	if left := w.m.Remaining(now); w.granted && left > w.success+w.p.TTL-w.p.Drift-w.now {
		return fmt.Errorf("%s remain, but the last success was sent at %s", left, w.success)
	}
	next, ok := w.m.Next()
	if ok && next <= w.now {
		return fmt.Errorf("next at %s is not after now %s", next, w.now)
	}
	fences := w.p.Class == lockcore.Critical || w.p.Class == lockcore.Standard
	if end := w.success + w.p.TTL - w.p.Drift - w.p.StopBudget; fences && w.granted && !w.fenced && !w.stopped && (!ok || next > end) {
		return fmt.Errorf("no timer at the deadline %s", end)
	}
	if w.m.State() != lockcore.Undoing && w.m.State() != lockcore.Seeking {
		w.owed = 0
	}
	return nil
}

func TestResultOf(t *testing.T) {
	for err, want := range map[error]lockcore.Result{
		&lockcore.HeldError{}:                      lockcore.Held,
		&lockcore.NotOwnedError{}:                  lockcore.Absent,
		&lockcore.NotOwnedError{Other: true}:       lockcore.Other,
		lockcore.CheckTTL(0):                       lockcore.Failed,
		fmt.Errorf("connection reset"):             lockcore.Unknown,
		fmt.Errorf("%w", lockcore.ErrNotSent):      lockcore.Failed,
		fmt.Errorf("x: %w", &lockcore.HeldError{}): lockcore.Held,
		nil: lockcore.OK,
	} {
		if got := lockcore.ResultOf(err); got != want {
			t.Errorf("ResultOf(%v) = %s, want %s", err, got, want)
		}
	}
}

// Every problem of a policy is named by its field.
func TestValidate(t *testing.T) {
	if err := tracePolicy().Validate(); err != nil {
		t.Fatalf("the trace policy: %v", err)
	}
	for field, spoil := range map[string]func(*lockcore.Policy){
		"TTL":                  func(p *lockcore.Policy) { p.TTL = 0 },
		"RenewEvery":           func(p *lockcore.Policy) { p.RenewEvery = -1 },
		"RenewJitter":          func(p *lockcore.Policy) { p.RenewJitter = 1.5 },
		"OpTimeout":            func(p *lockcore.Policy) { p.OpTimeout = 0 },
		"Drift + StopBudget":   func(p *lockcore.Policy) { p.StopBudget = p.TTL },
		"Class":                func(p *lockcore.Policy) { p.Class = "legacy" },
		"MaxFailures":          func(p *lockcore.Policy) { p.Class, p.MaxFailures = lockcore.LegacyCount, 0 },
		"Release.Mode":         func(p *lockcore.Policy) { p.Release.Mode = "" },
		"Release.Attempts":     func(p *lockcore.Policy) { p.Release.Attempts = 0 },
		"Release.Timeout":      func(p *lockcore.Policy) { p.Release.Timeout = 0 },
		"Release.AfterAbandon": func(p *lockcore.Policy) { p.Release.AfterAbandon = "" },
		"Acquire.Mode":         func(p *lockcore.Policy) { p.Acquire.Mode = "" },
		"Acquire.Timeout":      func(p *lockcore.Policy) { p.Acquire.Timeout = 0 },
		"Acquire.Budget":       func(p *lockcore.Policy) { p.Acquire.Mode = lockcore.AcquireWait },
		"Acquire.Backoff.Mode": func(p *lockcore.Policy) { p.Acquire.Mode = lockcore.AcquireWait },
		"Loop.Poll":            func(p *lockcore.Policy) { p.Loop = &lockcore.Loop{Mode: lockcore.LoopRenewed} },
		"Loop.Mode":            func(p *lockcore.Policy) { p.Loop = &lockcore.Loop{Poll: time.Second} },
	} {
		p := tracePolicy()
		spoil(&p)
		if err := p.Validate(); err == nil || !containsLine(err.Error(), "policy "+field+" ") {
			t.Errorf("%s: %v, want a line that names it", field, err)
		}
	}
}

func containsLine(text, prefix string) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(l, prefix) })
}
