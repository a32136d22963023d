package injectors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// RenewFailures makes the holder's renewals fail inside its own store client. The replica counts them where it makes them fail
// and disarms itself, by count or by time, so that a dead runner leaves nothing armed.
type RenewFailures struct {
	Send  func(incarnation string, c protocol.Command) error
	Await Await
	Clock func() int64
}

// Prepare has nothing to write down but the shot: the fault lives in the replica, and ends there by itself.
func (r *RenewFailures) Prepare(context.Context, history.Event) (undo.Record, error) {
	return undo.Record{}, nil
}

// Inject arms the burst for the resolved key.
func (r *RenewFailures) Inject(_ context.Context, rec undo.Record) (history.Span, error) {
	shot := rec.Shot
	span := history.At(r.Clock())
	err := r.Send(shot.Fault.Victim, protocol.Command{V: protocol.Version, Cmd: protocol.CmdArm, Arm: &protocol.Arm{
		Fault: shot.Fault.ID, Shot: shot.Fault.Shot, Op: "renew", Mode: shot.Fault.Form,
		Lock: shot.Lock, Key: shot.Key, Count: int(shot.Fault.Want), For: time.Duration(shot.Fault.Declared),
	}})
	span.To = r.Clock()
	if err != nil {
		return span, &voidError{"moved", fmt.Sprintf("arm %s: %v", shot.Fault.Victim, err)}
	}
	return span, nil
}

// Confirm waits for the replica's own report of the end and compares its count with what was asked for. The confirmed window
// reaches from the first hit to the last.
func (r *RenewFailures) Confirm(ctx context.Context, rec undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	shot, window, hits := rec.Shot, applied, int64(0)
	end, err := r.Await(ctx, int(shot.N), func(e history.Event) bool {
		switch {
		case e.Kind == history.ReplicaExit && e.Replica.Incarnation == shot.Fault.Victim:
			return true
		case e.Op != shot.Op:
			return false
		case e.Kind == history.FaultHit:
			if hits++; hits == 1 {
				window = e.Span
			}
			window.To = max(window.To, e.To)
		}
		return e.Kind == history.FaultReverted
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return window, history.Fault{Hits: hits}, &voidError{"unconfirmed", fmt.Sprintf("the end of the burst in %s was not seen in time; %d renewals failed so far", shot.Fault.Victim, hits)}
	case err != nil:
		return window, history.Fault{Hits: hits}, err
	case end.Kind == history.ReplicaExit:
		return window, history.Fault{Hits: hits}, &voidError{"moved", fmt.Sprintf("%s died during the burst", shot.Fault.Victim)}
	case hits == 0:
		return window, history.Fault{Hits: hits}, &voidError{"unconfirmed", "the burst hit no renewal"}
	case hits < shot.Fault.Want:
		return window, history.Fault{Hits: hits}, &voidError{"unconfirmed", fmt.Sprintf("the burst hit %d of %d renewals", hits, shot.Fault.Want)}
	}
	return window, history.Fault{Hits: hits}, nil
}

// Revert disarms; a replica that has ended, or disarmed itself, has nothing armed.
func (r *RenewFailures) Revert(ctx context.Context, rec undo.Record) (history.Span, error) {
	shot := rec.Shot
	over := func(e history.Event) bool {
		return e.Kind == history.FaultReverted && e.Op == shot.Op ||
			e.Kind == history.ReplicaExit && e.Replica.Incarnation == shot.Fault.Victim
	}
	_ = r.Send(shot.Fault.Victim, protocol.Command{V: protocol.Version, Cmd: protocol.CmdDisarm,
		Disarm: &protocol.Disarm{Fault: shot.Fault.ID, Shot: shot.Fault.Shot}}) // a dead replica cannot be told, and need not be
	end, err := r.Await(ctx, int(shot.N), over)
	if err != nil {
		return history.Span{}, fmt.Errorf("disarm %s in %s: no answer: %w", shot.Op, shot.Fault.Victim, err)
	}
	return end.Span, nil
}
