// Package drill puts one drill together and runs it: stores, replicas, injectors, probes, guards, the undo journal and its watchdog.
//
// How a drill is put together is read in this file: what it consists of (parts), and in which order that is opened, recorded and run
// (Run). It knows no command line: it prints nothing, and an end that is not the tool's own breaking is an Error. It judges nothing. Its
// one invariant: what a drill puts up or changes is in its undo journal first, so that it is undone whatever becomes of this process.
package drill

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/internal/follow"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/procstat"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/probes"
	"github.com/lockdrill/lockdrill/probes/holders"
	"github.com/lockdrill/lockdrill/stores/redis"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// Options say what is drilled, and who is told of it.
type Options struct {
	Experiment *experiments.Experiment // as loaded
	Cluster    Cluster
	Seed       int64  // 0 = the experiment's, else a new one
	Out        string // the run's folder; "" = runs/<UTC time>-<name>
	Trust      bool   // the folder may be one that others may write to
	Tool       string // with its version, for the history
	Labels     history.Labels

	// Notify takes a line for a person.
	Notify func(line string)
	// Begin is called once the drill has what it stands on, which notice names: observe takes each event as it is recorded, in order,
	// and end is called after the last of them.
	Begin func(e *experiments.Experiment, notice string, clock func() int64) (observe func(history.Event), end func())
}

// Drill is one experiment with everything that it stands on.
type Drill struct {
	o       Options
	loaded  *experiments.Experiment // as loaded
	e       *experiments.Experiment // scaled
	cluster *kube.Cluster           // of an experiment whose replicas are pods
	seed    int64
	run     string
	dir     string // absolute
	clock   func() int64
	origin  int64

	owners   map[string]string // controllers of the pods, by namespace; nil = the run's own, or nobody's pods
	targets  []string          // others may use them as well
	journal  *undo.Journal
	watchdog *watchdog
	rec      *history.Recorder
	log      *runner.Log

	// What the parts add when they are opened. What a drill does not have is in none of these.
	cfg       runner.Config
	strikes   *injectors.Reach // parts add to it when they are opened
	env       history.Environment
	notices   []string        // what the drill stands on, for a person
	net       sim.Net         // as it was measured
	facts     []history.Event // recorded after the environment, before anything is started
	begin     []func() error  // done once the history is being written
	guards    []func() (word, why string)
	files     follow.Bus                                        // on which all are who want lines of files
	lines     []listener                                        // who wants lines of pods' logs
	keyMetric func(experiments.Metric) (*probes.Metrics, error) // of the locks' store
	locks     *redis.Store                                      // nil = the drill has none for locks
	backends  []witness.Watch                                   // that are looked at
	heard     atomic.Pointer[[]*holders.Log]                    // sources of holders that want them, too, once there are any
	looks     []func() error                                    // close the connections of probes
	stands    []func(ctx context.Context) error                 // end the stores, and what stands between them and the replicas
}

// part opens one thing that a drill has, and adds to the drill what comes of it.
type part func(ctx context.Context) error

// parts are what the drill consists of, in the order in which they are opened: the locks' store and the ledger's with what stands on the
// replicas' way there, what the replicas are, and what looks at their metrics.
func (d *Drill) parts() []part {
	all := d.sources()
	s := &pair{Drill: d, seen: asHere, tapped: direct, proxied: direct}
	if d.e.Kubernetes != nil {
		s.seen = asPods(d.e.Kubernetes)
	}
	if d.leasesOf() != "" {
		all = append(all, func(ctx context.Context) error { return d.takeNamespace(ctx, d.cluster, nil) })
	}
	if hasStore(d.e) {
		all = append(all, s.openLocks)
		if !d.e.Observed() {
			all = append(all, s.openLedger)
		}
		switch {
		case d.e.ViaProxy() && d.e.Observed():
			d.strikes.API = d.e.Proxy.API
		case d.e.ViaProxy():
			all = append(all, s.openTap)
		}
		switch {
		case byNetwork(d.e.Faults) && d.e.Observed():
			all = append(all, s.openRoutes)
		case byNetwork(d.e.Faults):
			all = append(all, s.openProxies)
		}
		all = append(all, s.calibrate)
	}
	if d.e.Kubernetes != nil {
		all = append(all, d.openNamespace)
	}
	switch {
	case d.e.Observed():
		all = append(all, d.openObserved)
	case d.e.Kubernetes != nil:
		all = append(all, s.openWorkers)
	default:
		all = append(all, d.openProcesses)
	}
	return append(all, d.openMetrics)
}

// sources are the parts that only read: what cannot be read is known before anything is touched.
func (d *Drill) sources() []part {
	return []part{d.openLogs, d.findPrograms, d.findAskers, d.openQueries, d.openAlerts, d.openAborts, d.openEffects}
}

// New makes the run's folder, if the run may be.
func New(o Options) (*Drill, error) {
	if err := placeCommands(o.Experiment); err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	d := &Drill{o: o, loaded: o.Experiment, e: experiments.Scale(o.Experiment), seed: cmp.Or(o.Seed, o.Experiment.Seed), origin: monotime.Now()}
	d.clock = func() int64 { return monotime.Now() - d.origin }
	if d.seed == 0 {
		d.seed = now.UnixNano() & 0x7fffffff
	}
	d.run = now.Format("20060102T150405.000Z") + "-" + d.e.Name
	d.env = history.Environment{OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Replicas: d.e.System.Replicas, Calls: d.e.LockCalls()}
	d.guards = []func() (word, why string){func() (word, why string) { return mayGoOn(d.e, time.Now()) }}
	d.cfg = runner.Config{
		Experiment: d.e, Seed: d.seed, Clock: d.clock,
		Holder: func(context.Context, string) (string, bool, error) { return "", false, nil },
		Watch:  func(string, string) {},
		Asked:  func(string) {},
		Cleanup: []runner.Cleanup{
			{What: "probes", Do: func(context.Context) error { return d.closeProbes() }},
			{What: "stores", Do: d.closeStores},
		},
	}
	d.cfg.Machine = &runner.Machine{Proc: procstat.New(), Sleep: func(until int64) { monotime.SleepUntil(until + d.origin) }}
	d.strikes = &injectors.Reach{Clock: d.clock, Await: d.await, Past: d.past, Write: d.record, Replicas: d.e.ReplicaNames(), Run: d.run}
	var err error
	if d.cluster, err = o.Cluster.open(o.Experiment); err != nil {
		return nil, err
	}
	d.targets = targets(context.Background(), d.e, d.cluster)
	return d, d.openFolder()
}

// Run drills, and leaves experiment.yaml and history.jsonl behind. Where it does not come to a drill, it leaves nothing. The ending is
// what a person has to be told of the undo journal; nil = nothing.
func (d *Drill) Run(ctx context.Context) (_ *Ending, err error) {
	file, err := d.claim()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := d.openJournal(); err != nil {
		return d.giveUp(ctx, err)
	}
	header, err := d.writeExperiment() // before the first record: what a record may name stands in it
	if err != nil {
		return d.giveUp(ctx, err)
	}
	for _, open := range d.parts() {
		if err := open(ctx); err != nil {
			return d.giveUp(ctx, err)
		}
	}
	if err := d.makeInjectors(); err != nil {
		return d.giveUp(ctx, err)
	}
	observe, end := d.o.Begin(d.e, strings.Join(d.notices, "; "), d.clock)
	defer end()
	d.log = runner.NewLog()
	told := d.announce()
	defer told.close()
	d.rec, err = history.NewRecorder(file, header, d.clock, func(events []history.Event) {
		d.log.Add(events)
		for _, e := range events {
			observe(e)
			told.observe(e)
		}
	})
	if err != nil {
		return d.giveUp(ctx, err)
	}
	d.linkLatest()
	if err := d.recordFacts(ctx); err != nil {
		return d.giveUp(ctx, err)
	}
	for _, begin := range d.begin {
		if err := begin(); err != nil {
			return d.giveUp(ctx, err)
		}
	}
	return d.conclude(runner.Run(ctx, d.config()))
}

// recordFacts records what the drill stands on and what is expected of it.
func (d *Drill) recordFacts(ctx context.Context) error {
	facts := []history.Event{{Kind: history.RunEnvironment, Source: "runner", Environment: &d.env}}
	facts = append(facts, d.facts...)
	facts = append(facts, history.Event{Kind: history.RunPrediction, Source: "runner", Prediction: d.predict(ctx)})
	for _, e := range facts {
		if _, err := d.rec.RecordNow(e); err != nil {
			return err
		}
	}
	return nil
}

// config is what the parts have added up to.
func (d *Drill) config() runner.Config {
	cfg := d.cfg
	cfg.Recorder, cfg.Log, cfg.Journal, cfg.Injectors, cfg.Tell = d.rec, d.log, d.journal, striking{d.strikes}, d.o.Notify
	cfg.Guard = func() (word, why string) {
		for _, ask := range d.guards {
			if word, why = ask(); word != "" {
				return word, why
			}
		}
		return "", ""
	}
	// Last: nothing may be left to undo.
	cfg.Cleanup = append(cfg.Cleanup, runner.Cleanup{What: "undo journal", Do: func(context.Context) error { return d.journal.Close() }})
	return cfg
}

// stand lets the machine's watcher know of processes that are on this machine.
func (d *Drill) stand(here runner.Standing) { d.cfg.Machine.Stand = append(d.cfg.Machine.Stand, here) }

// What parts need of a history that is not being written yet when they are opened.

func (d *Drill) past() []history.Event { return d.log.Since(0) }

func (d *Drill) record(e history.Event) error { _, err := d.rec.Record(e); return err }

func (d *Drill) await(ctx context.Context, from int, match func(history.Event) bool) (history.Event, error) {
	return d.log.Await(ctx, from, match)
}

func faultOf(e *experiments.Experiment, id string) experiments.Fault {
	for _, f := range e.Faults {
		if f.ID == id {
			return f
		}
	}
	return experiments.Fault{} // ids come from the experiment itself
}

// noLock is the lock of a key that belongs to none.
const noLock = "unknown"

// stored is what a key that the file names is called in the locks' store: those of locks are below the run's prefix, and what is no
// lock's key is somebody else's.
func (d *Drill) stored(prefix, key string) string {
	if d.lockOf(key) == noLock {
		return key
	}
	return prefix + key
}

// lockOf names the lock that a key belongs to, since the ledger knows keys only.
func (d *Drill) lockOf(key string) string {
	if l := d.e.LockOf(key); l != nil {
		return l.Name
	}
	return noLock
}
