package runner

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/drill/conductor"
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

// lastSteps takes the replicas, once their work is over, through what a worker has to know and no fault of a drill shows: a job that is
// finished already, an arm that selects no call and is disarmed at once, and, of one of them, the end of its standard input. What they
// make of it stands in the record, where history/lint finds it.
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
	r.offerFinished(ctx, slices.Sorted(maps.Keys(alive)))
	r.armForNothing(ctx, alive)
	r.hangUp(ctx, slices.Min(slices.Collect(maps.Keys(alive))))
}

// doneAgainIn is the work of a finished job for who does it again.
const doneAgainIn = 50 * time.Millisecond

// offerFinished offers each replica a job that is finished, the newest that there are.
func (r *run) offerFinished(ctx context.Context, replicas []string) {
	var offers []conductor.Offer
	terminal := map[string]bool{}
	for _, e := range slices.Backward(r.Log.Since(0)) {
		switch {
		case e.Kind == history.LedgerEntry && e.Entry.Accepted && e.Entry.Terminal:
			terminal[e.Entry.Subject] = true
		case e.Kind == history.JobOffer && terminal[e.Job.ID] && len(offers) < len(replicas):
			offers = append(offers, conductor.Offer{Lock: e.Lock, Job: e.Job.ID, Key: e.Key, Class: e.Job.Class, Hold: doneAgainIn, To: replicas[len(offers)], Again: true})
		}
	}
	_, from := r.Log.From(0)
	unanswered := map[string]string{} // by replica
	for i := range offers {
		unanswered[offers[i].To] = offers[i].Job
		r.offer(&offers[i])
	}
	r.Recorder.Flush()
	r.awaitAll(ctx, from, unanswered, func(e *history.Event, job string) bool { return e.Kind == history.JobAck && e.Job.ID == job })
}

// armForNothing arms each replica with a fault that selects no call, and disarms it at once.
func (r *run) armForNothing(ctx context.Context, replicas map[string]bool) {
	_, from := r.Log.From(0)
	unanswered := map[string]string{}
	for name := range replicas { // who is dead or deaf by now does not answer
		unanswered[name] = lint.Shot
		_ = r.Fleet.Send(name, protocol.Command{V: protocol.Version, Cmd: protocol.CmdArm, Arm: &protocol.Arm{Fault: lint.ShotFault, Shot: 1,
			Spec: burst.Spec{Op: burst.Renew, Mode: burst.Error, Key: "no key of any lock", For: answerWithin}}})
		_ = r.Fleet.Send(name, protocol.Command{V: protocol.Version, Cmd: protocol.CmdDisarm, Disarm: &protocol.Disarm{Fault: lint.ShotFault, Shot: 1}})
	}
	r.awaitAll(ctx, from, unanswered, func(e *history.Event, shot string) bool { return e.Kind == history.FaultReverted && e.Op == shot })
}

// awaitAll waits until each replica has answered what it was asked, or has ended; in vain, for a while, where a worker is wrong.
func (r *run) awaitAll(ctx context.Context, from int, asked map[string]string, answers func(e *history.Event, asked string) bool) {
	if len(asked) == 0 {
		return
	}
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	_, _ = r.Log.Await(waiting, from, func(e history.Event) bool {
		if what, open := asked[e.Source]; open && answers(&e, what) {
			delete(asked, e.Source)
		}
		if e.Kind == history.ReplicaExit {
			delete(asked, e.Replica.Incarnation)
		}
		return len(asked) == 0
	})
}

// hangUp closes the standard input of a replica and waits for its end.
func (r *run) hangUp(ctx context.Context, replica string) {
	fleet, can := r.Fleet.(hangsUp)
	if !can {
		return
	}
	_, from := r.Log.From(0)
	if fleet.HangUp(replica) != nil {
		return // it has ended
	}
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	_, _ = r.Log.Await(waiting, from, func(e history.Event) bool { return e.Kind == history.ReplicaExit && e.Replica.Incarnation == replica })
}
