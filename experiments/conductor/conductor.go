// Package conductor decides what happens next in a drill: when the steady state holds, which job is offered to whom, when a
// fault is fired, when it has settled, when the run is over. It is pure: events and time come in, actions go out, and the same
// inputs give the same actions. The runner carries them out in real time, the rehearsal in virtual time.
//
// It does not judge, and it does not trust itself: whether a victim really held is looked up at the store when a fault is
// fired, and again by package analysis. Its one invariant: every wait in it has a limit, so that Step reaches Finish.
package conductor

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Action is something for the driver to do: exactly one field is set.
type Action struct {
	Phase  *history.Phase // record the beginning of a phase; PhaseFinal also means: stop the fleet, then look a last time
	Start  *Start
	Offer  *Offer
	Fire   *Fire
	Abort  *history.Note // record the abort; a later action gives the phase
	Finish bool          // the run is over: clean up
}

// Start asks for a new incarnation of a replica.
type Start struct{ Name, Incarnation string }

// Offer asks for a job to be given to a replica.
type Offer struct {
	Lock, Job, Key, Class, To string
	Hold                      time.Duration
	Again                     bool
}

// Fire asks for one shot of a fault. Aimed at a holder: of Key; an empty Key is a shot without a target, to be recorded as void.
// Aimed at replicas: at Victims; none is a shot without a target. Aimed at the store: neither is set, and Why is empty.
type Fire struct {
	Fault   *experiments.Fault
	Shot    int
	Key     string
	Epoch   string   // whom the claims name; the store decides
	Victims []string // incarnations alive now, in the order of their names
	Timing  string
	Anchor  int64         // before_renew: end of the success that the moment is counted from, ns
	For     time.Duration // the limit of a fault that is not instant
	Why     string        // of a shot without a target
}

// Conductor is the state of one drill. It is not safe for concurrent use.
type Conductor struct {
	e        *experiments.Experiment // scaled
	rng      *rand.Rand
	world    *world
	streams  []*stream
	series   []*series
	horizon  time.Duration // after the last fault, until a breach would have shown
	phase    string
	since    int64 // beginning of the phase, ns
	begun    int64
	steady   int64 // since when the steady state holds without a break; -1 = it does not
	abort    *history.Note
	aborted  bool
	unsteady bool // the steady state was not reached
	faultEnd int64
	kills    int             // fired so far
	struck   map[string]bool // incarnations that faults other than kills were aimed at
	out      []Action
}

// New prepares a drill of e, as it was loaded. All random choices come from seed.
func New(e *experiments.Experiment, seed int64) *Conductor {
	e = experiments.Scale(e)
	c := &Conductor{
		e:       e,
		rng:     rand.New(rand.NewPCG(uint64(seed), 0x10c4)),
		world:   newWorld(e),
		horizon: analysis.Horizon(e, ""),
		steady:  -1,
		struck:  map[string]bool{},
	}
	for i := range e.System.Work {
		c.streams = append(c.streams, newStream(e, &e.System.Work[i], c.world))
	}
	for i := range e.Faults {
		c.series = append(c.series, &series{f: &e.Faults[i], lock: lockOf(e, e.Faults[i].Lock())})
	}
	return c
}

func lockOf(e *experiments.Experiment, name string) *experiments.Lock {
	for i := range e.System.Locks {
		if e.System.Locks[i].Name == name {
			return &e.System.Locks[i]
		}
	}
	return nil
}

// Abort asks for an early end: what is one of the words of run.abort. The next Step goes to the revert phase.
func (c *Conductor) Abort(what, why string) {
	if c.abort == nil {
		c.abort = &history.Note{What: what, Why: why}
	}
}

// StoreLost tells that a store is gone for good; the run ends early and can conclude nothing more.
func (c *Conductor) StoreLost(why string) { c.world.storeLost = why }

// Step says what to do at now (ns since the run's origin). It is to be called after every batch of observed events and at Next.
func (c *Conductor) Step(now int64) []Action {
	c.out = nil
	if c.phase == "" {
		c.begun = now
		c.enter(now, history.PhaseSteady, "", nil)
	}
	if c.abort == nil && now-c.begun > int64(c.e.Limits.MaxRun) {
		c.Abort("limit", "limits.max_run of "+c.e.Limits.MaxRun.String()+" is over")
	}
	if what, why := c.world.lost(); what != "" && (c.phase == history.PhaseFaults || c.phase == history.PhaseSettle && !c.unsteady) {
		c.Abort(what, why)
	}
	if c.abort != nil && !c.aborted {
		c.aborted = true
		c.out = append(c.out, Action{Abort: c.abort})
		if c.phase == history.PhaseSteady || c.phase == history.PhaseFaults {
			c.enter(now, history.PhaseRevert, "", nil)
		}
	}
	if c.phase != history.PhaseFinal {
		c.restart(now)
		c.offer(now)
	}
	switch c.phase {
	case history.PhaseSteady:
		c.stepSteady(now)
	case history.PhaseFaults:
		c.stepFaults(now)
	case history.PhaseRevert:
		c.enter(now, history.PhaseSettle, c.settleWhy(now), nil)
	case history.PhaseSettle:
		c.stepSettle(now)
	case history.PhaseFinal:
		c.out = append(c.out, Action{Finish: true})
	}
	return c.out
}

func (c *Conductor) enter(now int64, phase, why string, holds *bool) {
	c.phase, c.since = phase, now
	c.out = append(c.out, Action{Phase: &history.Phase{Name: phase, Why: why, Holds: holds}})
}

// stepSteady waits until the steady state has held without a break for steady_state.for.
func (c *Conductor) stepSteady(now int64) {
	if _, why := c.world.lost(); why != "" {
		c.notSteady(now, why)
		return
	}
	missing := c.missing(now)
	switch {
	case missing != "":
		c.steady = -1
	case c.steady < 0:
		c.steady = now
	}
	yes := true
	switch {
	case missing == "" && now-c.steady >= int64(c.e.SteadyState.For):
		c.faultEnd = now
		c.enter(now, history.PhaseFaults, "", &yes)
		for _, s := range c.series {
			s.wait(now + int64(s.f.At))
		}
		c.stepFaults(now)
	case now-c.since >= int64(c.e.SteadyState.Timeout):
		if missing == "" {
			missing = "it did not hold for " + c.e.SteadyState.For.String() + " without a break"
		}
		c.notSteady(now, missing)
	}
}

func (c *Conductor) notSteady(now int64, why string) {
	no := false
	c.unsteady, c.faultEnd = true, now
	c.enter(now, history.PhaseFaults, why, &no)
	c.enter(now, history.PhaseRevert, "no steady state", nil)
}

// settleWhy says what the settle phase waits for.
func (c *Conductor) settleWhy(now int64) string {
	if c.aborted || c.unsteady {
		return ""
	}
	left := time.Duration(max(0, c.faultEnd+int64(c.horizon)-now)).Round(100 * time.Millisecond)
	return fmt.Sprintf("until a late breach would have shown, in %s, and owed jobs are done", left)
}

// stepSettle waits for the horizon, and for jobs that are still owed as long as the horizon would allow a new one, and its work.
func (c *Conductor) stepSettle(now int64) {
	if c.aborted || c.unsteady { // nothing was exposed to a fault, or nobody waits for what it comes to
		c.enter(now, history.PhaseFinal, "ended early", nil)
		return
	}
	owed, last, work := 0, c.faultEnd, int64(0)
	for _, s := range c.streams {
		owed += s.owed()
		last, work = max(last, s.lastFirst), max(work, s.longest)
	}
	over := now >= c.faultEnd+int64(c.horizon)
	if over && (owed == 0 || c.offered() && now >= last+int64(c.horizon)+work) {
		c.enter(now, history.PhaseFinal, "", nil)
	}
}

func (c *Conductor) offered() bool {
	for _, s := range c.streams {
		if s.next < s.work.Jobs {
			return false
		}
	}
	return true
}

// Next is the instant at which Step is to be called even if nothing is observed, at most 50 ms ahead: conditions such as a
// steady state that stops to hold are seen by looking.
func (c *Conductor) Next(now int64) int64 {
	next := now + int64(50*time.Millisecond)
	earlier := func(t int64) {
		if t > now {
			next = min(next, t)
		}
	}
	soon := now + int64(time.Millisecond) // for what is due by a rate: thousands a second need no step each
	if c.steady >= 0 && c.phase == history.PhaseSteady {
		earlier(c.steady + int64(c.e.SteadyState.For))
	}
	for _, r := range c.world.replicas {
		earlier(r.startAt)
	}
	for _, s := range c.streams {
		earlier(max(s.nextDue(), soon))
	}
	for _, s := range c.series {
		earlier(s.due)
	}
	return next
}
