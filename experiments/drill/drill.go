// Package drill puts one drill together and runs it: stores, replicas, injectors, probes, guards, the undo journal and its watchdog.
//
// It knows no command line: it prints nothing, and an end that is not the tool's own breaking is an Error. It judges nothing. Its one
// invariant: what a drill puts up or changes is in its undo journal first, so that it is undone whatever becomes of this process.
package drill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	"github.com/lockdrill/lockdrill/probes"
)

// Drill is one experiment with everything that it stands on, put together.
type Drill struct {
	o      Options
	loaded *experiments.Experiment // as loaded
	e      *experiments.Experiment // scaled
	seed   int64
	run    string
	dir    string // absolute
	clock  func() int64
	origin int64

	journal  *undo.Journal
	watchdog *watchdog

	stores    *testbed.Stores   // nil = the drill needs none: it watches Lease objects
	tap       *tap.Tap          // nil = no fault goes by it
	taps      map[string]string // its address, by the name of the replica
	injectors *injectors.Set
	proxies   *testbed.Proxies // nil = no fault of the network
	cluster   *kube.Cluster    // nil = the replicas are processes
	fleet     *testbed.Fleet   // nil = the replicas are pods
	pods      *pods            // nil = they are processes
	rec       *history.Recorder
	log       *runner.Log
	keys      *probes.LockKeys
	ledger    *probes.Ledger
	metrics   []runner.Sampled
}

// config hands each part what it needs.
func (d *Drill) config() runner.Config {
	cfg := runner.Config{
		Experiment: d.loaded,
		Seed:       d.seed,
		Clock:      d.clock,
		Recorder:   d.rec,
		Log:        d.log,
		Journal:    d.journal,
		Fleet:      d.replicaFleet(),
		Probes:     d.metrics,
		Holder: func(ctx context.Context, key string) (string, bool, error) {
			epoch, _, ok, err := d.keys.Holder(ctx, key)
			return epoch, ok, err
		},
		Watch:     func(string, string) {},
		Configure: d.configure,
		Guard:     d.mayGoOn,
		Cleanup: []runner.Cleanup{
			{What: "probes", Do: func(context.Context) error { return errors.Join(d.closeProbes(), d.closeMetrics()) }},
			{What: "stores", Do: d.closeStores},
			{What: "undo journal", Do: func(context.Context) error { return d.journal.Close() }}, // last: nothing may be left to undo
		},
	}
	if d.stores != nil {
		d.onStores(&cfg)
	}
	if d.pods != nil {
		d.onPods(&cfg)
	}
	d.injectors = injectors.New(d.parts())
	cfg.Injectors = map[string]runner.Injector{}
	for _, kind := range fault.Kinds() {
		if i := d.injectors.Of(kind); i != nil {
			cfg.Injectors[kind] = i
		}
	}
	return cfg
}

// onStores adds what looks at the stores, and what strikes the locks' own or what replicas ask of it.
func (d *Drill) onStores(cfg *runner.Config) {
	cfg.Watch = d.keys.Watch
	cfg.Probes = append(cfg.Probes, runner.Sampled{Name: "lock_keys", Source: "probe:lock_keys", Probe: d.keys, ProbeSettings: d.e.Probes.LockKeys})
	cfg.Stores = append(cfg.Stores, runner.Store{Name: runner.LocksStore, Life: d.stores.Locks.Life, Mark: d.stores.Locks.Mark})
	if d.stores.Ledger != nil {
		cfg.Probes = append(cfg.Probes, runner.Sampled{Name: "ledger", Source: "probe:ledger", Probe: d.ledger, ProbeSettings: d.e.Probes.Ledger})
		cfg.Stores = append(cfg.Stores, runner.Store{Name: "ledger", Life: d.stores.Ledger.Life, Mark: d.stores.Ledger.Mark})
	}
}

// parts are what the drill has for its injectors.
func (d *Drill) parts() injectors.Parts {
	p := injectors.Parts{
		Fault: func(id string) fault.Spec { return d.fault(id).Spec }, Clock: d.clock, Await: d.log.Await, Replicas: d.replicas(), Open: testbed.Dial,
		Past:   func() []history.Event { return d.log.Since(0) },
		Record: func(e history.Event) error { _, err := d.rec.Record(e); return err },
	}
	if !d.e.Observed() {
		p.Send = d.replicaFleet().Send
	}
	if d.stores != nil {
		locks := d.stores.Locks
		p.Store, p.Prefix, p.Tap, p.Dial = locks, locks.Prefix, d.tap, d.dialWay
		p.Glob = func(lock, key string) string { return tap.Quote(locks.Prefix) + d.glob(lock, key) }
		p.Bare = func(name string) (string, string) {
			key := strings.TrimPrefix(name, locks.Prefix)
			return d.lockOf(key), key
		}
	}
	if d.proxies != nil {
		p.Way = d.proxies.Way
	}
	if d.pods == nil {
		p.Signal = d.fleet.Signal
		return p
	}
	p.Pods, p.Container = d.cluster, d.e.Kubernetes.Container
	if d.pods.leases != nil {
		p.Sight = d.pods.leases.Sight
	}
	return p
}

// replicaFleet is whichever fleet the drill has.
func (d *Drill) replicaFleet() runner.Fleet {
	if d.pods != nil {
		return d.pods.fleet()
	}
	return d.fleet
}

// mayGoOn is asked every second of the run.
func (d *Drill) mayGoOn() (word, why string) {
	if word, why := mayGoOn(d.e, time.Now()); word != "" || d.pods == nil {
		return word, why
	}
	return d.pods.mayGoOn()
}

// closeProbes closes the connections of the probes that look at stores.
func (d *Drill) closeProbes() error {
	var errs []error
	if d.keys != nil {
		errs = append(errs, d.keys.Close())
	}
	if d.ledger != nil {
		errs = append(errs, d.ledger.Close())
	}
	return errors.Join(errs...)
}

// reverters undo by the record alone, in any process. While the runner lives, only those that work past it are given: what lives in
// a replica, or in the runner, ends by itself or with it.
func reverters(runnerDead bool, at Cluster) map[string]undo.Reverter {
	all := injectors.Reverters(testbed.Dial, runnerDead)
	maps.Copy(all, map[string]undo.Reverter{
		undo.StandReplica: testbed.EndStand,
		undo.StandServer:  testbed.EndStand,
		undo.StandKeys:    testbed.EndKeys,
		undo.StandWay:     testbed.EndWay,
		undo.StandPods: func(ctx context.Context, r undo.Record) error {
			r, err := at.elsewhere(r)
			if err != nil {
				return err
			}
			return testbed.EndPods(ctx, r)
		},
	})
	return all
}

// fault is the experiment's fault of that id, scaled.
func (d *Drill) fault(id string) experiments.Fault { return faultOf(d.e, id) }

func faultOf(e *experiments.Experiment, id string) experiments.Fault {
	for _, f := range e.Faults {
		if f.ID == id {
			return f
		}
	}
	return experiments.Fault{} // ids come from the experiment itself
}

// configure is what a replica is told.
func (d *Drill) configure(name, incarnation string) protocol.Configure {
	c := protocol.Configure{
		Name:        name,
		Incarnation: incarnation,
		Seed:        d.seed + seedOf(incarnation),
		Store:       d.store(name),
		Ledger:      d.ledgerAt(),
		Script:      redisstore.EffectScript(),
		Alone:       d.tap != nil,
	}
	for i := range d.e.System.Locks {
		l := &d.e.System.Locks[i]
		p := protocol.Lock{Name: l.Name, Profile: l.Profile, Key: l.Key, Policy: l.Policy}
		for j := range d.e.System.Work {
			if w := &d.e.System.Work[j]; w.Lock == l.Name {
				p.Unfenced, p.Strict, p.NoLook = !w.Fenced, w.Strict, !w.Look
			}
		}
		c.Locks = append(c.Locks, p)
	}
	return c
}

// seedOf turns an incarnation's name into a number, so that each one makes its own choices, the same ones in every run.
func seedOf(incarnation string) int64 {
	var n int64
	for _, b := range []byte(incarnation) {
		n = n*131 + int64(b)
	}
	return n
}

// openStores opens the two stores, and the probes beside them.
func (d *Drill) openStores(ctx context.Context) error {
	if !hasStore(d.e) {
		return nil
	}
	stores, err := testbed.OpenStores(ctx, testbed.Options{
		Redis: d.e.Redis, Ledger: d.e.Ledger, NoLedger: d.e.Observed(), Faults: d.e.Faults, Run: d.run, Folder: d.dir, Dir: d.storesDir(), Journal: d.journal,
	})
	if held := new(testbed.HeldError); errors.As(err, &held) {
		return &Error{Refused, err}
	} else if errors.Is(err, testbed.ErrSettings) {
		return &Error{Usage, err}
	} else if err != nil {
		return fmt.Errorf("open stores: %w", err)
	}
	d.stores = stores
	if err := d.openLooks(); err != nil {
		return fmt.Errorf("open probes: %w", err)
	}
	if err := d.openTap(); err != nil {
		return err
	}
	return d.openProxies(ctx)
}

// openLooks opens the probes of the stores. The keys of an observed system are somebody's: no prefix of the run goes before them.
func (d *Drill) openLooks() error {
	options, err := d.stores.Locks.Options()
	if err != nil {
		return err
	}
	prefix := d.stores.Locks.Prefix
	if d.e.Observed() {
		prefix = ""
	}
	d.keys = probes.NewLockKeys(options, prefix)
	for i := range d.e.System.Locks {
		if l := &d.e.System.Locks[i]; l.Loop() && l.Lease == "" {
			d.keys.Watch(l.Name, l.Key)
		}
	}
	if d.stores.Ledger == nil {
		return nil
	}
	if options, err = d.stores.Ledger.Options(); err != nil {
		return err
	}
	d.ledger = probes.NewLedger(options, redisstore.KeysOf(d.stores.Ledger.Prefix).Entries, d.lockOf)
	return nil
}

func (d *Drill) storesDir() string { return filepath.Join(d.dir, storesFolder) }

// storesFolder holds the folders of spawned servers; it is gone when the run is over.
const storesFolder = "stores"

// closeStores ends both stores and removes their folder; it may be called again.
func (d *Drill) closeStores(ctx context.Context) error {
	if d.stores == nil {
		return removeFolder(d.storesDir())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	return errors.Join(d.proxies.Close(ctx), d.closeTap(), d.stores.Close(ctx), removeFolder(d.storesDir()))
}

// closeWithin bounds the end of the stores.
const closeWithin = 10 * time.Second

// removeFolder removes an empty folder; one that is not there is removed already.
func removeFolder(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lockOf names the lock that a key belongs to, since the ledger knows keys only: a loop's own key, else the longest prefix.
func (d *Drill) lockOf(key string) string {
	name, longest := "unknown", -1
	for i := range d.e.System.Locks {
		switch l := &d.e.System.Locks[i]; {
		case l.Loop() && key == l.Key:
			return l.Name
		case !l.Loop() && strings.HasPrefix(key, l.KeyPrefix) && len(l.KeyPrefix) > longest:
			name, longest = l.Name, len(l.KeyPrefix)
		}
	}
	return name
}

// newFleet prepares the replicas: pods, the experiment's own worker, or this very binary.
func (d *Drill) newFleet(ctx context.Context) error {
	if d.cluster != nil {
		return d.standPods(ctx)
	}
	command := d.e.System.Worker
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the own binary: %w", err)
		}
		command = []string{self, "worker"}
	}
	d.fleet = testbed.NewFleet(testbed.FleetOptions{
		Command: command,
		Dir:     d.dir,
		Clock:   d.clock,
		Origin:  d.origin,
		Journal: d.journal,
		OnEvent: func(e history.Event) { _, _ = d.rec.Record(e) }, // a failed recorder ends the run by itself
		OnExit:  d.exited,
	})
	return nil
}

// exited records the end of a life, and what of its output was no event.
func (d *Drill) exited(x testbed.Exit) {
	r := history.Replica{Name: x.Name, Incarnation: x.Incarnation, PID: x.PID, Exit: x.State, Lines: x.Lines, Bad: x.Bad, Wanted: d.wanted(x.Incarnation)}
	if len(x.BadLines) > 0 {
		r.BadLine = x.BadLines[0]
	}
	_, _ = d.rec.Record(history.Event{Kind: history.ReplicaExit, Span: x.Span, Source: "runner", Replica: &r})
}

// wanted says whether the runner ended this incarnation: by a fault, or because the drill is over.
func (d *Drill) wanted(incarnation string) bool {
	return slices.ContainsFunc(d.log.Since(0), func(e history.Event) bool {
		return e.Kind == history.FaultIntent && fault.Seen(e.Fault.Kind, e.Fault.Form, "").Traits().Kills && e.Fault.Victim == incarnation ||
			e.Kind == history.RunPhase && e.Phase.Name == history.PhaseFinal
	})
}

// environment is recorded before anything is started.
func (d *Drill) environment() history.Environment {
	proxy := ""
	if d.proxies != nil {
		proxy = string(d.proxies.Mode)
	}
	env := history.Environment{Proxy: proxy, OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Fleet: "processes", Replicas: d.e.System.Replicas}
	if d.stores != nil {
		env.Store = d.stores.Locks.Info
		if d.stores.Ledger != nil {
			env.Ledger = d.stores.Ledger.Info
		}
	}
	if d.pods != nil {
		env.Fleet, env.Cluster = d.pods.kind(), d.pods.version
	}
	return env
}

// calibrateWithin bounds the calibration.
const calibrateWithin = 5 * time.Second
