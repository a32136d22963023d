package drill

import (
	"context"
	"slices"
	"syscall"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/probes"
)

// observedFleet is what a drill asks of replicas that are somebody's own, be they pods or processes of this host.
type observedFleet interface {
	runner.Fleet
	// HolderOf is the incarnation that a lock means by the name that it gives its holder; "" = no life that is known.
	HolderOf(named string) string
	// Sign notes that a replica surely lived at an instant.
	Sign(incarnation string, at int64)
	// Replicas are the lives that go on.
	Replicas() []testbed.Living
}

// openObserved has somebody's own pods or processes for replicas, and lets their locks say who holds them.
func (d *Drill) openObserved(context.Context) error {
	d.env.Fleet = history.FleetObservedPods
	watch, names := d.watchPods, probes.Names{}
	if k := d.e.Kubernetes; k != nil {
		names.Shown = k.Holder != nil
	} else {
		watch = d.watchProcesses()
	}
	var leases *probes.Leases // nil = no lock is a Lease object
	d.strikes.Sample = func(ctx context.Context) error {
		if leases == nil {
			return nil
		}
		return leases.Sample(ctx)
	}
	d.begin = append(d.begin, func() error {
		fleet, err := watch()
		if err != nil {
			return err
		}
		d.cfg.Fleet = fleet
		names.Holder = func(u probes.Unclaimed) probes.Named { return probes.Named{Holder: fleet.HolderOf(u.Value)} }
		for _, name := range d.names {
			name(names)
		}
		leases = d.watchLeases(fleet)
		return nil
	})
	return nil
}

// watchPods begins to watch the pods.
func (d *Drill) watchPods() (observedFleet, error) {
	o, err := d.watched()
	if err != nil {
		return nil, err
	}
	return testbed.NewObservedFleet(testbed.ObservedOptions{Pods: o, Holder: d.e.Kubernetes.Holder, Wanted: d.wanted}), nil
}

// watchProcesses prepares what strikes processes of this host, and gives what begins to watch them.
func (d *Drill) watchProcesses() func() (observedFleet, error) {
	d.env.Fleet = history.FleetObservedProcesses
	d.notices = append(d.notices, "somebody's own processes: "+d.e.System.Processes.Where())
	var fleet *testbed.LocalFleet // watched from the history's beginning on: injectors, which are made before, strike after it
	d.strikes.Alone = true
	d.strikes.Signal = func(incarnation string, sig syscall.Signal) (history.Span, error) {
		return fleet.Signal(incarnation, sig)
	}
	return func() (observedFleet, error) {
		fleet = testbed.NewLocalFleet(testbed.LocalOptions{
			Processes: d.e.System.Processes, Last: d.e.Limits.LastReplica, Clock: d.clock, Wanted: d.wanted,
			OnEvent: func(e history.Event) { _ = d.record(e) }, // a failed recorder ends the run by itself
		})
		d.stand(standing(fleet.Processes))
		return fleet, nil
	}
}

// watchLeases looks at the locks that are Lease objects; nil = none is.
func (d *Drill) watchLeases(fleet observedFleet) *probes.Leases {
	names := map[string]string{}
	for i := range d.e.System.Locks {
		if l := &d.e.System.Locks[i]; l.Lease != "" && names[l.Lease] == "" {
			names[l.Lease] = l.Name
		}
	}
	if len(names) == 0 {
		return nil
	}
	leases := probes.NewLeases(d.cluster, names, fleet.HolderOf, d.clock)
	d.cfg.Probes = append(d.cfg.Probes, runner.Sampled{
		Name: "leases", Source: "probe:leases", Probe: signing{leases, fleet, history.Ends{}}, ProbeSettings: d.e.Probes.Leases,
	})
	keys := d.cfg.Holder
	d.cfg.Holder = func(ctx context.Context, key string) (string, bool, error) {
		if !d.isLease(key) {
			return keys(ctx, key)
		}
		epoch, _, ok, err := leases.Holder(ctx, key)
		return epoch, ok, err
	}
	d.looks = append(d.looks, func() error { leases.Close(); return nil })
	return leases
}

// isLease says whether a key is the name of a Lease object.
func (d *Drill) isLease(key string) bool {
	return slices.ContainsFunc(d.e.System.Locks, func(l experiments.Lock) bool { return l.Lease != "" && l.Key == key })
}

// signing lets looks at locks be signs of their holders' lives: nobody else extends a lease.
type signing struct {
	runner.Probe
	lives interface {
		Sign(incarnation string, at int64)
		HolderOf(named string) string
	}
	ends history.Ends // looks are made one after the other
}

func (s signing) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	look, err := s.Probe.Look(ctx, final)
	if err != nil {
		return nil, err
	}
	return func(at history.Span) []history.Event {
		events := look(at)
		for _, e := range events {
			// Where another life has the same name by now, either may have extended it.
			if l := e.Look; l != nil && s.ends.Extended(e) && l.Prev != nil && l.Holder != "" && s.lives.HolderOf(l.Named) == l.Holder {
				s.lives.Sign(l.Holder, l.Prev.From)
			}
		}
		return events
	}, nil
}
