// Package conductor decides what happens next in a drill: when the steady state holds, which job is offered to whom, when a
// fault is fired, when it has settled, when the run is over. It is pure: events and time come in, actions go out, and the same
// inputs give the same actions. The runner carries them out in real time, the rehearsal in virtual time.
//
// It does not judge, and it does not trust itself: whether a victim really held is looked up at the store when a fault is
// fired, and again by package analysis. Its one invariant: every wait in it has a limit, so that Step reaches Finish.
package conductor

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// Action is something for the driver to do: exactly one field is set.
type Action struct {
	Phase  *history.Phase // record the beginning of a phase; PhaseFinal also means: stop the fleet, then look a last time
	Start  *Start
	Offer  *Offer
	Fire   *Fire
	Abort  *history.Note // record the abort; a later action gives the phase
	Tell   string        // for a person
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
	Anchor  int64              // before_renew: end of the success that the moment is counted from, ns
	For     time.Duration      // the limit of a fault that is not instant
	Why     string             // of a shot without a target
	Word    history.VoidReason // for Why; "" = there was nobody
	Said    string             // of Victims: why they are fewer than declared
}

// Conductor is the state of one drill. It is not safe for concurrent use.
type Conductor struct {
	e        *experiments.Experiment // scaled
	pcg      *rand.PCG
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
	alerts   []alertRow
	aborts   []abortRow
	wake     int64 // the first instant that the last Step waits for; 0 = it has not seen all yet
	out      []Action
}

// New prepares a drill of e, as it is run: scaled. All random choices come from seed.
func New(e *experiments.Experiment, seed int64) *Conductor {
	c := &Conductor{
		e:       e,
		pcg:     rand.NewPCG(0, 0),
		world:   newWorld(e),
		horizon: forecast.Horizon(e, ""),
		struck:  map[string]bool{},
		aborts:  abortRows(e),
	}
	c.rng = rand.New(c.pcg)
	for i := range e.System.Work {
		c.streams = append(c.streams, newStream(e, &e.System.Work[i], c.world))
	}
	for i := range e.Faults {
		s := &series{f: &e.Faults[i], does: e.Faults[i].Traits(), lock: e.Lock(e.Faults[i].Lock())}
		if r, ok := s.f.Spec.(fault.Rolling); ok {
			s.rolling = r.Rolls()
		}
		s.asks = forecast.QuestionsOf(e, s.f)
		c.series = append(c.series, s)
	}
	for _, s := range c.series {
		var after *experiments.Fault
		if after, s.offset = e.Begin(s.f); after != nil {
			s.after = c.series[slices.IndexFunc(c.series, func(o *series) bool { return o.f == after })]
		}
	}
	for _, s := range e.AlertRows() {
		c.alerts = append(c.alerts, alertRow{SLO: s, names: s.AlertNames()})
	}
	c.Reset(seed)
	return c
}

// Reset begins another drill of the same experiment, as New does, and keeps what was allocated.
func (c *Conductor) Reset(seed int64) {
	c.pcg.Seed(uint64(seed), 0x10c4)
	c.world.reset()
	for _, s := range c.streams {
		s.reset()
	}
	for _, s := range c.series {
		*s = series{f: s.f, does: s.does, lock: s.lock, rolling: s.rolling, after: s.after, offset: s.offset, exposed: s.exposed[:0], asks: s.asks}
		for _, q := range s.asks {
			q.N, q.Surely, q.Maybe = 0, 0, 0
		}
	}
	clear(c.struck)
	for i := range c.alerts {
		c.alerts[i].told, c.alerts[i].fired, c.alerts[i].firing = false, false, nil
	}
	for i := range c.aborts {
		c.aborts[i].reset()
	}
	*c = Conductor{e: c.e, pcg: c.pcg, rng: c.rng, world: c.world, streams: c.streams, series: c.series, horizon: c.horizon,
		steady: -1, struck: c.struck, alerts: c.alerts, aborts: c.aborts, out: c.out[:0]}
}

// Abort asks for an early end: what is one of the words of run.abort. The next Step goes to the revert phase.
func (c *Conductor) Abort(what, why string) {
	if c.abort == nil {
		c.abort, c.wake = &history.Note{What: what, Why: why}, 0
	}
}

// StoreLost tells that a store is gone for good; the run ends early and can conclude nothing more.
func (c *Conductor) StoreLost(why string) { c.world.storeLost = why }

// Step says what to do at now (ns since the run's origin). It is to be called after every batch of observed events and at Next; called
// at other times too, it says nothing more and nothing else. The slice is good until the next Step.
func (c *Conductor) Step(now int64) []Action {
	c.out, c.wake = c.out[:0], never
	if c.phase == "" {
		c.begun = now
		c.enter(now, history.PhaseSteady, "", nil)
	}
	if c.abort == nil && c.due(now, c.begun+int64(c.e.Limits.MaxRun)+1) {
		c.Abort(history.AbortLimit, "limits.max_run of "+c.e.Limits.MaxRun.String()+" is over")
	}
	if c.abort == nil && c.phase != history.PhaseFinal {
		c.abortDue(now)
	}
	c.hung(now)
	if what, why := c.world.lost(); what != "" && (c.phase == history.PhaseFaults || c.phase == history.PhaseSettle && !c.unsteady) {
		c.Abort(what, why+c.waits())
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
	if phase != history.PhaseSteady && phase != history.PhaseFaults { // what these wait for is looked at in the Step that enters them
		c.note(now)
	}
	c.out = append(c.out, Action{Phase: &history.Phase{Name: phase, Why: why, Holds: holds}})
}

// stepSteady waits until the steady state has held without a break for steady_state.for.
func (c *Conductor) stepSteady(now int64) {
	if what, why := c.world.lost(); why != "" {
		lacks := history.OtherwiseUnsteady
		if what == history.AbortReplicasLost {
			lacks = history.NotReady
		}
		c.notSteady(now, lacks, why+c.waits())
		return
	}
	missing := c.missing(now)
	switch {
	case missing != (unmet{}):
		c.steady = -1
	case c.steady < 0:
		c.steady = now
	}
	switch {
	case missing == (unmet{}) && c.due(now, c.steady+int64(c.e.SteadyState.For)):
		yes := true
		c.faultEnd = now
		c.enter(now, history.PhaseFaults, "", &yes)
		for _, s := range c.series {
			s.wait(now + int64(s.offset))
			if s.after != nil {
				s.wait(never)
			}
		}
		c.stepFaults(now)
	case c.due(now, c.since+int64(c.e.SteadyState.Timeout)):
		why := "it did not hold for " + c.e.SteadyState.For.String() + " without a break"
		if missing != (unmet{}) {
			why = missing.String() + c.waits()
		}
		c.notSteady(now, cmp.Or(missing.code, history.OtherwiseUnsteady), why)
	}
}

func (c *Conductor) notSteady(now int64, lacks history.Unsteady, why string) {
	no := false
	c.unsteady, c.faultEnd = true, now
	c.enter(now, history.PhaseFaults, why, &no)
	c.out[len(c.out)-1].Phase.Lacks = lacks
	c.enter(now, history.PhaseRevert, "no steady state", nil)
}

// settleWhy says what the settle phase waits for.
func (c *Conductor) settleWhy(now int64) string {
	if c.aborted || c.unsteady {
		return ""
	}
	left := time.Duration(max(0, max(c.faultEnd+int64(c.horizon), c.alertsAt())-now)).Round(100 * time.Millisecond)
	return fmt.Sprintf("waiting %s for late violations and unfinished jobs", left)
}

// stepSettle waits for the horizon, and for jobs that are still owed as long as the horizon would allow a new one, and its work.
func (c *Conductor) stepSettle(now int64) {
	if c.aborted || c.unsteady { // nothing was exposed to a fault, or nobody waits for what it comes to
		c.enter(now, history.PhaseFinal, "ended early", nil)
		return
	}
	if c.due(now, c.settledAt()) {
		c.enter(now, history.PhaseFinal, "", nil)
	}
}

// settledAt is when the settle phase ends, if nothing is observed until then; never while jobs are to come that are owed.
func (c *Conductor) settledAt() int64 {
	owed, offered, last, work := 0, true, c.faultEnd, int64(0)
	for _, s := range c.streams {
		owed += s.owed()
		offered = offered && s.next >= s.work.Jobs
		last, work = max(last, s.lastFirst), max(work, s.longest)
	}
	for _, since := range c.world.open { // somebody's own jobs: they may take as long as a takeover once more
		if since <= c.faultEnd {
			owed, work = owed+1, int64(c.horizon)
		}
	}
	switch {
	case owed == 0:
		return max(c.faultEnd+int64(c.horizon), c.alertsAt())
	case offered:
		return max(last+int64(c.horizon)+work, c.alertsAt())
	}
	return never
}
