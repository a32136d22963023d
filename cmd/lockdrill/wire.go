package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/bed"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	"github.com/lockdrill/lockdrill/probes"
)

// drill is one experiment with everything that it stands on, put together. This file is the only one that knows every kind.
type drill struct {
	loaded *experiments.Experiment // as loaded
	e      *experiments.Experiment // scaled
	seed   int64
	run    string
	dir    string // absolute
	named  bool   // dir was chosen by the user
	clock  func() int64
	origin int64

	stores  *bed.Stores
	fleet   *bed.Fleet
	rec     *history.Recorder
	log     *runner.Log
	keys    *probes.LockKeys
	ledger  *probes.Ledger
	metrics []runner.Sampled
}

// config hands each part what it needs.
func (d *drill) config() runner.Config {
	return runner.Config{
		Experiment: d.loaded,
		Seed:       d.seed,
		Clock:      d.clock,
		Recorder:   d.rec,
		Log:        d.log,
		Fleet:      d.fleet,
		Injectors: map[string]runner.Injector{
			"kill":           &injectors.Kill{Signal: d.fleet.Signal, Await: d.log.Await, Past: func() []history.Event { return d.log.Since(0) }},
			"renew_failures": &injectors.RenewFailures{Send: d.fleet.Send, Await: d.log.Await, Clock: d.clock},
		},
		Probes: append([]runner.Sampled{
			{Name: "lock_keys", Source: "probe:lock_keys", Probe: d.keys, ProbeSettings: d.e.Probes.LockKeys},
			{Name: "ledger", Source: "probe:ledger", Probe: d.ledger, ProbeSettings: d.e.Probes.Ledger},
		}, d.metrics...),
		Stores: []runner.Store{
			{Name: "locks", Life: d.stores.Locks.Life, Mark: d.stores.Locks.Mark},
			{Name: "ledger", Life: d.stores.Ledger.Life, Mark: d.stores.Ledger.Mark},
		},
		Holder: func(ctx context.Context, key string) (string, bool, error) {
			epoch, _, ok, err := d.keys.Holder(ctx, key)
			return epoch, ok, err
		},
		Watch:     d.keys.Watch,
		Configure: d.configure,
		Cleanup: []runner.Cleanup{
			{What: "probes", Do: func(context.Context) error { return errors.Join(d.keys.Close(), d.ledger.Close(), d.closeMetrics()) }},
			{What: "stores", Do: d.closeStores},
		},
	}
}

// configure is what a replica is told.
func (d *drill) configure(name, incarnation string) protocol.Configure {
	c := protocol.Configure{
		Name:        name,
		Incarnation: incarnation,
		Seed:        d.seed + seedOf(incarnation),
		Store:       protocol.Endpoint{Addr: d.stores.Locks.Addr, Prefix: d.stores.Locks.Prefix},
		Ledger:      protocol.Endpoint{Addr: d.stores.Ledger.Addr, Prefix: d.stores.Ledger.Prefix},
		Script:      redisstore.EffectScript(),
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
func (d *drill) openStores(ctx context.Context) error {
	stores, err := bed.OpenStores(ctx, bed.Options{Mode: d.e.Redis.Mode, Run: d.run, Dir: d.storesDir()})
	if err != nil {
		return fmt.Errorf("open stores: %w", err)
	}
	d.stores = stores
	d.keys = probes.NewLockKeys(stores.Locks.Addr, stores.Locks.Prefix)
	d.ledger = probes.NewLedger(stores.Ledger.Addr, redisstore.KeysOf(stores.Ledger.Prefix).Entries, d.lockOf)
	for i := range d.e.System.Locks {
		if l := &d.e.System.Locks[i]; l.Loop() {
			d.keys.Watch(l.Name, l.Key)
		}
	}
	return nil
}

func (d *drill) storesDir() string { return filepath.Join(d.dir, "stores") }

// closeStores ends both stores and removes their folder; it may be called again.
func (d *drill) closeStores(ctx context.Context) error {
	if d.stores == nil {
		return removeFolder(d.storesDir())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	return errors.Join(d.stores.Close(ctx), removeFolder(d.storesDir()))
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
func (d *drill) lockOf(key string) string {
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

// newFleet prepares the replicas: the experiment's own worker, or this very binary.
func (d *drill) newFleet() error {
	command := d.e.System.Worker
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the own binary: %w", err)
		}
		command = []string{self, "worker"}
	}
	d.fleet = bed.NewFleet(bed.FleetOptions{
		Command: command,
		Dir:     d.dir,
		Clock:   d.clock,
		Origin:  d.origin,
		OnEvent: func(e history.Event) { _, _ = d.rec.Record(e) }, // a failed recorder ends the run by itself
		OnExit:  d.exited,
	})
	return nil
}

// exited records the end of a life, and what of its output was no event.
func (d *drill) exited(x bed.Exit) {
	r := history.Replica{Name: x.Name, Incarnation: x.Incarnation, PID: x.PID, Exit: x.State, Lines: x.Lines, Bad: x.Bad, Wanted: d.wanted(x.Incarnation)}
	if len(x.BadLines) > 0 {
		r.BadLine = x.BadLines[0]
	}
	_, _ = d.rec.Record(history.Event{Kind: history.ReplicaExit, Span: x.Span, Source: "runner", Replica: &r})
}

// wanted says whether the runner ended this incarnation: by a fault, or because the drill is over.
func (d *drill) wanted(incarnation string) bool {
	return slices.ContainsFunc(d.log.Since(0), func(e history.Event) bool {
		return e.Kind == history.FaultIntent && e.Fault.Kind == "kill" && e.Fault.Victim == incarnation ||
			e.Kind == history.RunPhase && e.Phase.Name == history.PhaseFinal
	})
}

// environment is recorded before anything is started.
func (d *drill) environment() history.Environment {
	return history.Environment{
		OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Store: d.stores.Locks.Info, Ledger: d.stores.Ledger.Info,
		Fleet: "processes", Replicas: d.e.System.Replicas,
	}
}

// calibrateWithin bounds the calibration.
const calibrateWithin = 5 * time.Second
