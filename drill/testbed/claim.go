package testbed

import (
	"fmt"

	"github.com/lockdrill/lockdrill/history"
)

// claim parses one line of a replica's standard output into e: an event of a kind that a replica can know, in its own name, moved
// to the run's origin. Unknown fields are tolerated.
func claim(p *history.Parser, line []byte, who *history.Replica, origin int64, e *history.Event) error {
	if err := p.Parse(line, e); err != nil {
		return fmt.Errorf("no event: %w", err)
	}
	if !claimable(e.Kind) {
		return fmt.Errorf("kind %q is not a replica's to claim", e.Kind)
	}
	if e.Kind == history.ReplicaReady { // who it is we know better; where its metrics are, only it does
		ready := *who
		if e.Replica != nil {
			ready.Metrics = e.Replica.Metrics
		}
		e.Replica = &ready
	}
	e.N, e.At = 0, 0
	e.Source, e.Clock = who.Incarnation, history.ClockShared
	e.Span = e.Add(-origin)
	if err := e.Check(); err != nil {
		return fmt.Errorf("%s: %w", e.Kind, err)
	}
	return nil
}

// claimable are the kinds that history-format.md lists as claims of a replica.
func claimable(k history.Kind) bool {
	switch k {
	case history.ReplicaReady, history.JobAck, history.WaitBegin, history.WaitEnd,
		history.AcquireInvoke, history.AcquireReturn, history.RenewInvoke, history.RenewReturn,
		history.ReleaseInvoke, history.ReleaseReturn, history.UndoInvoke, history.UndoReturn, history.ReleaseSkipped,
		history.AbandonKind, history.FenceObserved, history.UnownedEnter, history.WorkEnter, history.WorkExit,
		history.WriteInvoke, history.WriteReturn, history.FaultHit, history.FaultReverted:
		return true
	}
	return false
}
