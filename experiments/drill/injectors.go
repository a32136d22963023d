package drill

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// equipment is what a drill has for its injectors: parts add to it when they are opened, and the kinds of faults that need what a drill
// does not have are refused with the experiment.
type equipment struct {
	Fault    func(id string) experiments.Fault // as it is run: scaled
	Clock    func() int64                      // ns since the run's origin
	Await    injectors.Await
	Past     func() []history.Event // all that is recorded so far
	Record   func(history.Event) error
	Replicas []string // all names

	Signal func(incarnation string, sig syscall.Signal) (history.Span, error) // of processes
	Send   func(incarnation string, c protocol.Command) error                 // to replicas that take commands

	Store  *testbed.Store // the locks'
	Prefix string         // of every key of the run

	Way  func(replica string) (undo.Way, bool) // of replicas to the locks, through a Toxiproxy
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	Tap  *tap.Tap                             // on all ways
	Glob func(lock, key string) string        // names as the store knows them
	Bare func(name string) (lock, key string) // the other way round

	Pods      *kube.Cluster // replicas are pods of it
	Container string
	Sight     func(context.Context) error // looks at the locks once more

	hit func(tap.Hit) // takes what the tap reports
}

// injectors make the kinds of faults that the drill has the equipment for.
func (q *equipment) injectors() map[string]runner.Injector {
	all := map[string]runner.Injector{}
	switch {
	case q.Pods != nil:
		all["kill"] = &injectors.PodKill{
			Pods: q.Pods, Container: q.Container, Send: q.Send, Sight: q.Sight, Fault: q.Fault, Await: q.Await, Past: q.Past, Clock: q.Clock,
		}
	case q.Signal != nil:
		all["kill"] = &injectors.Kill{Signal: q.Signal, Await: q.Await, Past: q.Past}
		all["pause"] = &injectors.Pause{Signal: q.Signal, Past: q.Past, Clock: q.Clock}
	}
	scaled := func(id string) *experiments.Fault { f := q.Fault(id); return &f }
	if q.Store != nil {
		all["store"] = &injectors.Store{
			Server: q.Store, Open: testbed.Dial, Fault: func(id string) experiments.StoreFault { return *q.Fault(id).Store }, Prefix: q.Prefix, Clock: q.Clock,
		}
		all["delete_key"] = &injectors.DeleteKey{Open: testbed.Dial, Where: q.Store.Where, Prefix: q.Prefix, Clock: q.Clock}
	}
	if q.Way != nil {
		network := &injectors.Toxics{Fault: scaled, Way: q.Way, Replicas: q.Replicas, Dial: q.Dial, Await: q.Await, Past: q.Past, Clock: q.Clock}
		for _, kind := range netKinds() {
			all[kind] = network
		}
	}
	if q.Send != nil {
		bursts := &injectors.Failures{Fault: scaled, Clock: q.Clock, Send: q.Send, Await: q.Await, Tap: q.Tap, Glob: q.Glob, Bare: q.Bare, Record: q.Record}
		q.hit = bursts.Hit
		for _, kind := range []string{"renew_failures", "acquire_failures", "release_failures"} {
			all[kind] = bursts
		}
		all["clock"] = &injectors.Clock{Send: q.Send, Await: q.Await, Offset: func(id string) time.Duration { return q.Fault(id).Clock.Offset }, Now: q.Clock}
	}
	return all
}

// reverters undo by the record alone, in any process. While the runner lives, only those that work past it are given: what lives in
// a replica, or in the runner, ends by itself or with it.
func reverters(runnerDead bool, at Cluster) map[string]undo.Reverter {
	all := map[string]undo.Reverter{
		undo.StandReplica: testbed.EndStand,
		undo.StandServer:  testbed.EndStand,
		undo.StandKeys:    testbed.EndKeys,
		undo.StandWay:     testbed.EndWay,
		undo.StandPods: func(ctx context.Context, r undo.Record) error {
			r, err := at.elsewhere(r)
			if err != nil {
				return err
			}
			return testbed.EndPods(ctx, r, at.Kubeconfig != "")
		},
		"pause":      revertBy(&injectors.Pause{Clock: noClock}),
		"store":      revertBy(&injectors.Store{Open: testbed.Dial, Clock: noClock}),
		"delete_key": revertBy(&injectors.DeleteKey{Open: testbed.Dial, Clock: noClock}),
	}
	for _, kind := range netKinds() {
		all[kind] = injectors.RevertWays
	}
	if runnerDead {
		for _, kind := range []string{"kill", "renew_failures", "acquire_failures", "release_failures", "clock"} {
			all[kind] = endedWithReplica
		}
	}
	return all
}

// netKinds are the faults of the network.
func netKinds() []string {
	return []string{
		experiments.KindLatency, experiments.KindJitter, experiments.KindBandwidth, experiments.KindBlackHole, experiments.KindReset,
		experiments.KindSlowClose, experiments.KindDown,
	}
}

// noClock is for injectors that only revert: nobody writes a history of it.
func noClock() int64 { return 0 }

// endedWithReplica: a death is not undone, and what a replica was told to do, or what stood in the runner, is gone with them. The
// replica's own record says that it is gone: without that the journal is not closed.
func endedWithReplica(context.Context, undo.Record) error { return nil }

// revertBy makes a reverter of an injector that needs nothing but the record to revert.
func revertBy(i runner.Injector) undo.Reverter {
	return func(ctx context.Context, r undo.Record) error {
		_, err := i.Revert(ctx, r)
		return err
	}
}
