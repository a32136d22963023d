package runner

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/history/lint"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// hangsUp is a fleet that can close the standard input of a replica, as the end of its runner does.
type hangsUp interface {
	HangUp(incarnation string) error
}

// answerWithin is how long replicas have to answer an arm that is disarmed at once.
const answerWithin = 2 * time.Second

// lastSteps takes the replicas, once their work is over, through what a worker has to know and no fault of a drill shows: an arm that
// selects no call and is disarmed at once, and, of one of them, the end of its standard input. What they make of it stands in the record,
// where history/lint finds it.
func (r *run) lastSteps(ctx context.Context) {
	alive := map[string]bool{}
	for _, e := range r.Log.Since(0) {
		switch e.Kind {
		case history.ReplicaReady:
			alive[e.Replica.Incarnation] = true
		case history.ReplicaExit:
			delete(alive, e.Replica.Incarnation)
		}
	}
	if len(alive) == 0 {
		return
	}
	answered := maps.Clone(alive)
	_, from := r.Log.From(0)
	for name := range alive { // who is dead or deaf by now does not answer
		_ = r.Fleet.Send(name, protocol.Command{V: protocol.Version, Cmd: protocol.CmdArm, Arm: &protocol.Arm{Fault: lint.ShotFault, Shot: 1,
			Spec: burst.Spec{Op: burst.Renew, Mode: burst.Error, Key: "no key of any lock", For: answerWithin}}})
		_ = r.Fleet.Send(name, protocol.Command{V: protocol.Version, Cmd: protocol.CmdDisarm, Disarm: &protocol.Disarm{Fault: lint.ShotFault, Shot: 1}})
	}
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	_, _ = r.Log.Await(waiting, from, func(e history.Event) bool { // in vain, where a worker is wrong
		if e.Kind == history.FaultReverted && e.Op == lint.Shot || e.Kind == history.ReplicaExit {
			delete(answered, e.Source)
			if e.Replica != nil {
				delete(answered, e.Replica.Incarnation)
			}
		}
		return len(answered) == 0
	})
	fleet, can := r.Fleet.(hangsUp)
	if !can {
		return
	}
	first := slices.Min(slices.Collect(maps.Keys(alive)))
	if fleet.HangUp(first) != nil {
		return // it has ended
	}
	waiting, cancel = context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	_, _ = r.Log.Await(waiting, from, func(e history.Event) bool { return e.Kind == history.ReplicaExit && e.Replica.Incarnation == first })
}
