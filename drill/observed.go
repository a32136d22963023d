package drill

import (
	"context"
	"math"
	"syscall"

	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// observedFleet is what a drill asks of replicas that are somebody's own, be they pods or processes of this host.
type observedFleet interface {
	runner.Fleet
	runner.Finder
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
	watch, names := d.watchPods, witness.Names{}
	if k := d.e.Kubernetes; k != nil {
		names.Shown = k.Holder != nil
	} else {
		watch = d.watchProcesses()
	}
	d.strikes.Sample = func(ctx context.Context) error {
		for _, b := range d.backends {
			w, apart := b.(witness.Sampled)
			if !apart {
				continue
			}
			if err := w.Sample(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	d.begin = append(d.begin, func() error {
		d.watchBeliefs() // the first lines of pods' logs are theirs
		fleet, err := watch()
		if err != nil {
			return err
		}
		d.cfg.Fleet = fleet
		names.Holder = func(u witness.Unclaimed) witness.Named {
			return witness.Named{Holder: fleet.HolderOf(u.Value), Name: true}
		}
		names.Began = func(holder string) int64 {
			for _, l := range fleet.Replicas() {
				if l.Incarnation == holder {
					return l.Since
				}
			}
			return math.MaxInt64
		}
		if err := d.askHolders(fleet, &names); err != nil {
			return err
		}
		return d.watchLocks(fleet, names)
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
	d.strikes.Alone, d.strikes.Grace = true, d.e.System.Processes.Grace
	d.strikes.Signal = func(incarnation string, sig syscall.Signal) (history.Span, error) {
		return fleet.Signal(incarnation, sig)
	}
	return func() (observedFleet, error) {
		fleet = testbed.NewLocalFleet(testbed.LocalOptions{
			Processes: d.e.System.Processes, Last: d.e.Limits.LastReplica, Clock: d.clock, Wanted: d.wanted,
			OnEvent: func(e history.Event) { _ = d.record(e) }, // a failed recorder ends the run by itself
		})
		d.stand(standing(fleet.Processes))
		d.guards = append(d.guards, func() (word, why string) {
			if err := fleet.Lost(); err != nil {
				return history.AbortTargetLost, err.Error()
			}
			return "", ""
		})
		return fleet, nil
	}
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
