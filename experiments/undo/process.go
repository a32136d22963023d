package undo

import (
	"context"
	"fmt"
	"time"
)

// goneEvery is how often a process that was told to end is looked for.
const goneEvery = 5 * time.Millisecond

// Find says which process has the number now. Where that cannot be told (no such process, or another system than Linux), Started is
// "", and the process can never be signalled by the record.
func Find(pid int) Process { return Process{PID: pid, Started: startOf(pid), Host: bootID()} }

// Lives reports whether this very process runs: number, start time and boot agree, and it is more than a corpse that nobody has
// collected. An error says that this cannot be told here.
func (p Process) Lives() (bool, error) { return lives(p) }

// AwaitEnd waits until the process is gone.
func (p Process) AwaitEnd(ctx context.Context) error {
	poll := time.NewTicker(goneEvery)
	defer poll.Stop()
	for {
		alive, err := p.Lives()
		if err != nil || !alive {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of process %d: %w", p.PID, ctx.Err())
		}
	}
}
