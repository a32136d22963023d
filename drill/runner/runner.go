// Package runner carries out in real time what the conductor decides: it starts replicas, offers jobs, fires faults, runs the
// probes, and writes the history. It is the only writer of the history.
//
// It knows neither Redis nor Kubernetes: fleets, injectors and probes are handed to it, behind the small interfaces declared
// here. Its one invariant: when Run returns, everything that it started has ended or is named in a run.cleanup event that is
// not ok.
package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/drill/conductor"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// Fleet runs replicas. Their events and exits arrive at the recorder, not here.
type Fleet interface {
	// Start gives a new life its name and its configuration. Where none is there to take it yet, as with pods, which come by
	// themselves, the replica's incarnation is empty: its replica.start arrives at the recorder when it has.
	Start(ctx context.Context, c protocol.Configure) (history.Replica, history.Span, error)
	Send(incarnation string, c protocol.Command) error
	Stop(ctx context.Context) error // ends all, waits for all
}

// Finder is a fleet that nobody starts: its replicas are found.
type Finder interface {
	Unseen() string // what its looks for them get, where they fail at present; "" = they do not
}

// Injectors make faults.
type Injectors interface {
	Makes(s fault.Spec) bool // there is what it takes
	// Prepare resolves a shot: whom it strikes, and how that is undone. It reads, and changes nothing. A VoidError: no such target.
	Prepare(ctx context.Context, s fault.Spec, shot history.Event) (Strike, error)
}

// Strike is a shot on its way.
type Strike interface {
	// Record says how it is undone, also by another process.
	Record() undo.Record
	// Within is how long it may take to be injected and confirmed, beyond its declared time; 0 = as long as any.
	Within() time.Duration
	// Inject does it and returns the bracket of doing it. Where it fails, it may have been done in part: Revert is called.
	Inject(ctx context.Context) (history.Span, error)
	// Confirm waits until the effect has been observed on the right victim, and returns the confirmed window; of seen the fields
	// Hits, Detail, Baseline, Expected, Observed and Death are kept. A VoidError says that the shot must not count.
	Confirm(ctx context.Context, applied history.Span) (window history.Span, seen history.Fault, err error)
	// Revert ends the fault and reads back that it has ended; "the target is gone" counts as ended. It may be called again.
	// It never removes what another put there. The bracket is that of the end of the fault's effect.
	Revert(ctx context.Context) (history.Span, error)
}

// Probe makes one look, with no schedule and no stamps: the returned function turns the look into events once its bracket is known.
type Probe interface {
	Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error)
}

// Priced is a probe that knows what it has cost the store that it looks at.
type Priced interface {
	Observer(ctx context.Context) *history.Observer
}

// Sampled is a probe with its schedule.
type Sampled struct {
	Name   string // as in coverage events: "lock_keys"
	Source string // "probe:lock_keys"
	Probe  Probe
	Live   bool          // it asks the replicas: its final look comes before they are stopped
	Last   time.Duration // that look may take so long; 0 = as long as those of other probes
	experiments.ProbeSettings
}

// Store is how the runner notices that a store has lost its data, or is gone.
type Store struct {
	Name string // LocksStore, or another, which no fault reaches
	Life func(ctx context.Context) (runID string, marker bool, err error)
	Mark func(ctx context.Context) error // sets the marker (again)
	Away time.Duration                   // it may be away for so long before it is lost; 0 = storeLostFor
}

// LocksStore is the Name of the store that faults of the store are done to.
const LocksStore = "locks"

// Cleanup is one thing to remove or end after the drill.
type Cleanup struct {
	What string
	Do   func(ctx context.Context) error
}

// Config is everything that a run needs. All fields are required unless they say otherwise.
type Config struct {
	Experiment *experiments.Experiment // as it is run: scaled
	Seed       int64
	Clock      func() int64 // ns since the run's origin
	Recorder   *history.Recorder
	Log        *Log          // the recorder's tap
	Journal    *undo.Journal // what is changed is written down here first
	Fleet      Fleet
	Injectors  Injectors
	Probes     []Sampled
	Stores     []Store
	Holder     func(ctx context.Context, key string) (epoch string, ok bool, err error) // the store's own word
	// Again asks who holds the key of a shot, just before that strikes: an error says that it is not surely the victim. nil = nobody asks.
	Again     func(ctx context.Context, shot history.Event) error
	Watch     func(lock, key string) // tell the key probe of a job's key, at each offer
	Asked     func(key string)       // tell it that a replica is about to take a key
	Configure func(name, incarnation string) protocol.Configure
	Cleanup   []Cleanup // in the order to be done
	Machine   *Machine  // on which the runner is; nil = nobody watches it
	// Guard is asked every second whether the run may go on; else it says why not, and the word for run.abort. nil = it may.
	Guard func() (word, why string)
	Tell  func(line string) // what a person is to know at once; nil = nobody listens
}

// Limits of waits that no experiment sets.
const (
	stopWithin    = 10 * time.Second // for the fleet to end by itself
	cleanupWithin = 10 * time.Second // for each thing to clean up
	lookWithin    = 2 * time.Second  // for one look of a probe, and for resolving a victim
	storeLostFor  = 5 * time.Second  // a store that has not answered for so long is lost
	guardEvery    = time.Second
	writeEvery    = 20 * time.Millisecond // what comes often waits so long at most for the history's file
	breath        = 2 * time.Millisecond  // between two turns of the loop: without it the runner of 200 jobs a second took a tenth more of a processor
)

// Wired refuses faults that nobody would make. Run does so too, and then does nothing else: also no clean-up.
func Wired(e *experiments.Experiment, by Injectors) error {
	for i := range e.Faults {
		if f := &e.Faults[i]; !by.Makes(f.Spec) {
			return fmt.Errorf("fault %s: this drill has no injector for faults of kind %s", f.ID, f.Kind())
		}
	}
	return nil
}

type run struct {
	Config
	c     *conductor.Conductor
	shots shots
	err   error // the first error of ours: ends the run
}

// Run drills until the conductor is done or ctx ends (an operator's interrupt, which aborts in order). The error is one of the
// tool itself; what the drill showed is in the history.
func Run(ctx context.Context, cfg Config) error {
	if err := Wired(cfg.Experiment, cfg.Injectors); err != nil {
		return err
	}
	r := &run{Config: cfg, c: conductor.New(cfg.Experiment, cfg.Seed)}
	watch, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	samplers := startSamplers(watch, r.Recorder, r.Clock, r.Probes)
	var watched sync.WaitGroup
	if r.Machine != nil {
		watched.Go(func() { watchMachine(watch, r.Machine, r.Clock, func(e history.Event) { _, _ = r.Recorder.Record(e) }) })
	}
	lives := startLives(watch, r.Recorder, r.Clock, r.Stores, r.shots.atStore)

	flights, land := context.WithCancel(context.WithoutCancel(ctx))
	defer land()
	r.loop(ctx, flights, samplers, lives.lost)

	land()
	r.shots.revertAll(ctx, r)
	samplers.finish(ctx, true)
	if r.Experiment.System.CheckWorker {
		r.lastSteps(ctx)
	}
	r.stopFleet(ctx)
	samplers.finish(ctx, false)
	stopWatching()
	lives.wait()
	watched.Wait()
	clean := r.cleanup(ctx)
	return r.end(clean)
}

// loop alternates between observing and acting until the conductor has finished.
// Shots fly on flights, which outlasts an interrupt but not the loop.
func (r *run) loop(ctx, flights context.Context, watching *samplers, lost <-chan string) {
	interrupted := ctx.Done()
	timer, guard := time.NewTimer(0), time.NewTicker(guardEvery)
	defer timer.Stop()
	defer guard.Stop()
	var write int64 // when what waits for it is to be written
	for {
		wake := r.Log.Changed()
		for _, e := range r.Log.Take() {
			if e.Kind == history.AcquireInvoke {
				r.Asked(e.Key)
			}
			r.c.Observe(e)
		}
		watching.tell(r.c.Unseen)
		if f, ok := r.Fleet.(Finder); ok {
			r.c.Unseen(conductor.Replicas, f.Unseen())
		}
		if r.step(ctx, flights) {
			return
		}
		time.Sleep(breath)
		now := r.Clock()
		next := r.c.Next(now)
		if now >= write {
			r.Recorder.Flush()
			write = now + int64(writeEvery)
		} else if r.Recorder.Waiting() {
			next = min(next, write)
		}
		timer.Reset(time.Duration(next - now))
		select {
		case <-wake:
		case <-timer.C:
		case why := <-lost:
			r.c.StoreLost(why)
		case <-guard.C:
			r.ask()
		case <-interrupted:
			interrupted = nil
			r.c.Abort(history.AbortSignal, "interrupted by the operator")
		}
	}
}

// ask lets the guard end the run, or the loss of the journal: without it nothing can be undone for a runner that dies.
func (r *run) ask() {
	if err := r.Journal.Check(); err != nil && r.err == nil {
		r.err = err
	}
	if r.Guard == nil {
		return
	}
	if word, why := r.Guard(); word != "" {
		r.c.Abort(word, why)
	}
}

// step carries out one batch of actions; true = finished.
func (r *run) step(ctx, flights context.Context) bool {
	for _, a := range r.c.Step(r.Clock()) {
		switch {
		case a.Phase != nil:
			r.record(history.Event{Kind: history.RunPhase, Source: source, Phase: a.Phase})
		case a.Start != nil:
			r.start(ctx, a.Start)
		case a.Offer != nil:
			r.offer(a.Offer)
		case a.Fire != nil:
			r.shots.fire(flights, r, a.Fire)
		case a.Abort != nil:
			r.record(history.Event{Kind: history.RunAbort, Source: source, Note: a.Abort})
		case a.Tell != "" && r.Tell != nil:
			r.Tell(a.Tell)
		case a.Finish:
			return true
		}
	}
	if r.err == nil {
		r.err = r.Recorder.Err()
	}
	if r.err != nil {
		r.c.Abort(history.AbortError, r.err.Error())
	}
	return r.Recorder.Err() != nil
}

// source names the runner in events.
const source = "runner"

// record stamps an event of the runner at this instant. Its errors end the run through Recorder.Err or r.err.
func (r *run) record(e history.Event) {
	if _, err := r.Recorder.RecordNow(e); err != nil && r.err == nil {
		r.err = err
	}
}

func (r *run) recordSpan(e history.Event) {
	if _, err := r.Recorder.Record(e); err != nil && r.err == nil {
		r.err = err
	}
}

func (r *run) start(ctx context.Context, s *conductor.Start) {
	rep, span, err := r.Fleet.Start(context.WithoutCancel(ctx), r.Configure(s.Name, s.Incarnation))
	if err != nil {
		// A replica that cannot even be started is one that exited at once: the conductor counts it.
		rep = history.Replica{Name: s.Name, Incarnation: s.Incarnation, Exit: "not started: " + err.Error()}
		r.record(history.Event{Kind: history.ReplicaExit, Source: source, Replica: &rep})
		return
	}
	if rep.Incarnation == "" {
		return
	}
	r.recordSpan(history.Event{Kind: history.ReplicaStart, Span: span, Source: source, Replica: &rep})
}

func (r *run) offer(o *conductor.Offer) {
	r.Watch(o.Lock, o.Key)
	kind := history.JobOffer
	if o.Again {
		kind = history.JobRedeliver
	}
	// It is written with what comes often: see loop.
	if err := r.Recorder.RecordAll([]history.Event{{Kind: kind, Span: history.At(r.Clock()), Source: source, Lock: o.Lock, Key: o.Key,
		Job: &history.Job{ID: o.Job, Class: o.Class, Hold: int64(o.Hold), To: o.To}}}); err != nil && r.err == nil {
		r.err = err
	}
	// An offer that does not reach a dying replica is lost, as offers may be: it is due again after the redelivery period.
	_ = r.Fleet.Send(o.To, protocol.Command{V: protocol.Version, Cmd: protocol.CmdOffer,
		Offer: &protocol.Offer{Lock: o.Lock, Job: o.Job, Key: o.Key, Class: o.Class, Hold: o.Hold}})
}

func (r *run) stopFleet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	err := r.Fleet.Stop(ctx)
	r.note("replicas", err)
}

// note records what became of one thing that was to be cleaned up.
func (r *run) note(what string, err error) bool {
	n := &history.Note{What: what, OK: err == nil}
	if err != nil {
		n.Why = err.Error()
	}
	r.record(history.Event{Kind: history.RunCleanup, Source: source, Note: n})
	return err == nil
}

// cleanup does every step even if another fails, each on a fresh context.
func (r *run) cleanup(ctx context.Context) bool {
	clean := true
	for _, step := range r.Cleanup {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupWithin)
		clean = r.note(step.What, step.Do(ctx)) && clean
		cancel()
	}
	return clean && !r.Log.Any(0, func(e history.Event) bool { return e.Kind == history.RunCleanup && !e.Note.OK })
}

// end writes the last line.
func (r *run) end(clean bool) error {
	what := "completed"
	if r.Log.Any(0, func(e history.Event) bool { return e.Kind == history.RunAbort }) {
		what = "aborted"
	}
	note := &history.Note{What: what, OK: clean}
	if r.err != nil {
		note.What, note.Why = "error", r.err.Error()
	}
	r.record(history.Event{Kind: history.RunEnd, Source: source, Note: note})
	if r.err != nil {
		return fmt.Errorf("run: %w", r.err)
	}
	return nil
}

// VoidError says that a shot yields no trial, with the word for it: moved, unconfirmed, no_target.
type VoidError interface {
	error
	Void() history.VoidReason
}

// voidDetail says more, for a person.
func voidDetail(err error) string {
	if errors.Is(err, context.Canceled) {
		return history.RunEndedFirst
	}
	return err.Error()
}

// voidWord is the word that fault.void carries for err.
func voidWord(err error) history.VoidReason {
	if errors.Is(err, context.Canceled) {
		return history.Unconfirmed
	}
	var v VoidError
	if errors.As(err, &v) {
		return v.Void()
	}
	return history.FaultFailed
}
