// Package rehearsal leads a drill in virtual time: the very conductor of live runs, on a simulated world in which replicas run the
// very lock core. It gives the history that a live run would have given, labelled as a rehearsal, and the truth behind it.
//
// It judges nothing and promises nothing about a live system. Its one invariant: the same experiment and the same seed give the
// same history, byte for byte.
package rehearsal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/drill/conductor"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/lockcore/work"
)

// RealTime is e, as it was loaded, at its real durations: what the file gives for a scaled run, and no scale touches, gets the time
// that a run without a scale takes.
func RealTime(e *experiments.Experiment) *experiments.Experiment {
	real := *e
	if e.TimeScale > 0 && e.TimeScale < 1 {
		longer := func(d time.Duration) time.Duration { return time.Duration(float64(d) / e.TimeScale) }
		real.SteadyState.Timeout = longer(e.SteadyState.Timeout)
		real.Limits.MaxRun = longer(e.Limits.MaxRun)
	}
	real.TimeScale = 1
	return &real
}

// Drill is one rehearsed drill: its history, and what really happened. Both are the rehearser's: they are good until its next Run.
type Drill struct {
	History *history.History
	Truth   *sim.Truth
}

// Subject is what the replicas run in place of the core, and how they tell of it; the zero Subject is the core. Tell is made for each
// life of a replica: it hands on what is to be heard of an event, if anything.
type Subject struct {
	Variant lockcore.Variant
	Work    work.Wrong
	Tell    func() func(e history.Event, hand func(history.Event))
}

// Rehearser rehearses one experiment again and again. It is not safe for concurrent use.
type Rehearser struct {
	asIs   *experiments.Experiment
	config sim.Config // but for the seed
	d      drill
}

// New prepares rehearsals of e, as it was loaded or as RealTime gives it: they last as long as a run of it at its time scale.
func New(e *experiments.Experiment, net sim.Net) *Rehearser { return Of(e, net, Subject{}) }

// Of is New with another lock under the policies of e.
func Of(e *experiments.Experiment, net sim.Net, of Subject) *Rehearser {
	r := &Rehearser{asIs: e, config: sim.Config{Net: net}}
	d, scaled := &r.d, experiments.Scale(e)
	*d = drill{e: scaled, c: conductor.New(scaled, 0), h: &history.History{}, told: history.Numbers{},
		gaveUp: map[string]int64{}, hits: map[string]history.Span{}, ended: map[string]bool{}, running: map[string]bool{}}
	r.config.Locks, r.config.Emit = locksOf(d.e), d.record
	if d.tell = of.Tell; d.tell != nil {
		r.config.Emit = d.hear
	}
	for i := range r.config.Locks {
		r.config.Locks[i].Variant, r.config.Locks[i].Wrong = of.Variant, of.Work
	}
	r.config.Looks.Keys, r.config.Looks.Ledger = sim.Sampling(d.e.Probes.LockKeys), sim.Sampling(d.e.Probes.Ledger)
	d.w = sim.New(r.config)
	return r
}

// Run rehearses one drill. The error is ctx's, or says that the drill does not come to an end.
func (r *Rehearser) Run(ctx context.Context, seed int64) (*Drill, error) {
	d := r.begin(seed)
	if err := d.lead(ctx); err != nil {
		return nil, err
	}
	d.finish()
	return &Drill{History: d.h, Truth: d.w.Truth()}, nil
}

// begin prepares the drill of a seed, in the memory of the one before it.
func (r *Rehearser) begin(seed int64) *drill {
	d := &r.d
	d.c.Reset(seed)
	d.h.Header = history.Header{
		Schema: history.SchemaVersion, Tool: "lockdrill", Run: fmt.Sprintf("rehearsal-%s-%d", d.e.Name, seed), Experiment: d.e.Name,
		Seed: seed, Mode: history.Rehearsal, TimeScale: r.asIs.TimeScale, Started: "2026-01-01T00:00:00Z",
	}
	d.h.Events = d.h.Events[:0]
	d.live, d.over, d.aborted = d.live[:0], false, false
	clear(d.told)
	clear(d.gaveUp)
	clear(d.hits)
	clear(d.ended)
	clear(d.running)
	d.tellers = nil
	r.config.Seed = uint64(seed)
	d.w.Reset(r.config)
	d.net = r.config.Net
	d.begin(d.net)
	return d
}

func locksOf(e *experiments.Experiment) []sim.Lock {
	var out []sim.Lock
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		s := sim.Lock{Name: l.Name, Key: l.Key, Policy: l.Policy, Unfenced: !e.Fenced(l.Name)}
		if w := e.WorkUnder(l.Name); w != nil {
			s.Strict, s.NoLook = w.Strict, !w.Look
		}
		out = append(out, s)
	}
	return out
}

// drill is one rehearsal under way.
type drill struct {
	e       *experiments.Experiment // scaled
	c       *conductor.Conductor
	w       *sim.World
	h       *history.History
	told    history.Numbers  // the streams of h
	live    []*shot          // injected and not yet reverted
	gaveUp  map[string]int64 // epochs that were given up, and when
	hits    map[string]history.Span
	ended   map[string]bool                                     // shots whose end somebody has told
	running map[string]bool                                     // incarnations
	tell    func() func(history.Event, func(history.Event))     // Subject.Tell
	tellers map[string]func(history.Event, func(history.Event)) // by incarnation
	net     sim.Net
	over    bool // the conductor has finished: nothing flies any more
	aborted bool
}

// hear records what replicas say of themselves as they tell it.
func (d *drill) hear(e history.Event) {
	if e.Source == source || strings.HasPrefix(e.Source, "probe:") || e.Kind == history.ReplicaReady {
		d.record(e)
		return
	}
	t := d.tellers[e.Source]
	if t == nil {
		if d.tellers == nil {
			d.tellers = map[string]func(history.Event, func(history.Event)){}
		}
		t = d.tell()
		d.tellers[e.Source] = t
	}
	t(e, d.record)
}

// record appends an event to the history.
func (d *drill) record(e history.Event) {
	e.N, e.At = int64(len(d.h.Events)+1), d.w.Now()
	d.told.Give(&e)
	d.h.Events = append(d.h.Events, e)
	switch e.Kind {
	case history.ReleaseInvoke, history.FenceObserved:
		if _, known := d.gaveUp[e.Epoch]; !known {
			d.gaveUp[e.Epoch] = e.From
		}
	case history.FaultHit:
		w, known := d.hits[e.Op]
		if !known {
			w = e.Span
		}
		d.hits[e.Op] = history.Span{From: w.From, To: max(w.To, e.To)}
	case history.FaultReverted:
		d.ended[e.Op] = true
	}
}

const source = "runner"

// say records what the one who leads the drill does at this instant.
func (d *drill) say(e history.Event) {
	e.Source, e.Span = source, history.At(d.w.Now())
	d.w.Say(e)
}

// begin says what the drill stands on.
func (d *drill) begin(net sim.Net) {
	sort := history.StoreInfo{Kind: "simulated"}
	proxy := ""
	for i := range d.e.Faults {
		if d.e.Faults[i].Net() {
			proxy = "simulated"
		}
	}
	d.say(history.Event{Kind: history.RunEnvironment, Environment: &history.Environment{
		OS: "virtual time", Store: sort, Ledger: sort, Proxy: proxy, Fleet: "simulated", Replicas: d.e.System.Replicas}})
	d.say(history.Event{Kind: history.RunCalibration, Calibration: &history.Calibration{
		RTT50: int64(net.Least + net.Most), RTT99: 2 * int64(net.Most), Timer99: int64(net.Late)}})
	d.w.Begin()
}

// lead alternates between observing and acting, as the runner does, until the conductor has finished.
func (d *drill) lead(ctx context.Context) error {
	seen := 0
	for turn := 0; ; turn++ {
		if turn%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for ; seen < len(d.h.Events); seen++ {
			d.c.Observe(d.h.Events[seen])
		}
		for _, a := range d.c.Step(d.w.Now()) {
			if d.act(a) {
				return nil
			}
		}
		if seen < len(d.h.Events) {
			continue // what was just recorded is observed first
		}
		if d.w.Now() > 2*int64(d.e.Limits.MaxRun)+int64(time.Hour) {
			return fmt.Errorf("rehearse %s with seed %d: no end after %s", d.e.Name, d.h.Header.Seed, time.Duration(d.w.Now()))
		}
		d.w.Advance(d.c.Next(d.w.Now()))
	}
}

// act carries out one action; true = finished.
func (d *drill) act(a conductor.Action) bool {
	switch {
	case a.Phase != nil:
		d.say(history.Event{Kind: history.RunPhase, Phase: a.Phase})
	case a.Start != nil:
		d.start(a.Start)
	case a.Offer != nil:
		d.offer(a.Offer)
	case a.Fire != nil:
		d.fire(a.Fire)
	case a.Abort != nil:
		d.aborted = true
		d.say(history.Event{Kind: history.RunAbort, Note: a.Abort})
	case a.Finish:
		return true
	}
	return false
}

// Times of what the runner and the system do beside the locks.
const (
	callTakes    = 40 * time.Microsecond  // a system call, as its bracket shows it
	startTakes   = 20 * time.Millisecond  // from the start of a process to its first connection
	connectEvery = 50 * time.Millisecond  // between attempts to connect
	deathTakes   = 300 * time.Microsecond // from kill to the word of waitpid
)

func (d *drill) start(s *conductor.Start) {
	d.say(history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: s.Name, Incarnation: s.Incarnation}})
	d.running[s.Incarnation] = true
	d.w.After(startTakes+d.apart(), func() { d.connect(s) })
}

// connect waits until the store answers, as a replica does that starts.
func (d *drill) connect(s *conductor.Start) {
	switch {
	case d.over:
		d.running[s.Incarnation] = false
	case !d.w.Answers():
		d.w.After(connectEvery, func() { d.connect(s) })
	default:
		d.w.Start(s.Name, s.Incarnation)
		d.w.Say(history.Event{Kind: history.ReplicaReady, Span: history.At(d.w.Now()), Source: s.Incarnation, Clock: history.ClockShared,
			Replica: &history.Replica{Name: s.Name, Incarnation: s.Incarnation}})
	}
}

func (d *drill) offer(o *conductor.Offer) {
	kind := history.JobOffer
	if o.Again {
		kind = history.JobRedeliver
	}
	d.w.Watch(o.Lock, o.Key)
	d.say(history.Event{Kind: kind, Lock: o.Lock, Key: o.Key, Job: &history.Job{ID: o.Job, Class: o.Class, Hold: int64(o.Hold), To: o.To}})
	d.w.Offer(o.To, sim.Offer{Lock: o.Lock, Job: o.Job, Key: o.Key, Class: o.Class, Hold: o.Hold})
}

// exited tells of the end of a life.
func (d *drill) exited(incarnation, how string, at history.Span) {
	if !d.running[incarnation] {
		return
	}
	d.running[incarnation] = false
	d.w.Say(history.Event{Kind: history.ReplicaExit, Span: at, Source: source,
		Replica: &history.Replica{Name: nameOf(incarnation), Incarnation: incarnation, Exit: how, Wanted: true}})
	for _, s := range slices.Clone(d.live) {
		if s.onExit != nil {
			s.onExit()
		}
	}
}

// nameOf is the name of a replica, which stays over its lives.
func nameOf(incarnation string) string {
	name, _, _ := strings.Cut(incarnation, ".")
	return name
}

// finish is what the runner does when the conductor has: everything is reverted, the fleet stopped, looked at a last time.
func (d *drill) finish() {
	d.over = true
	for i := len(d.live) - 1; i >= 0; i-- {
		d.live[i].revert()
	}
	for d.settle(time.Second); len(d.live) > 0; d.settle(time.Second) {
	}
	d.w.StopAll(func(incarnation string) {
		d.exited(incarnation, "exit status 0", history.Span{From: d.w.Now(), To: d.w.Now()})
	})
	d.settle(10 * time.Second)
	d.cleaned("replicas")
	d.w.FinalLooks()
	d.settle(max(10*time.Millisecond, 2*d.net.Most)) // as long as a look takes
	for _, what := range []string{"probes", "stores", "undo journal"} {
		d.cleaned(what)
	}
	what := "completed"
	if d.aborted {
		what = "aborted"
	}
	d.say(history.Event{Kind: history.RunEnd, Note: &history.Note{What: what, OK: true}})
}

// settle lets time pass.
func (d *drill) settle(t time.Duration) {
	for until := d.w.Now() + int64(t); !d.w.Advance(until); {
	}
}

func (d *drill) cleaned(what string) {
	d.say(history.Event{Kind: history.RunCleanup, Note: &history.Note{What: what, OK: true}})
}
