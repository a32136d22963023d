package undo

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/internal/poll"
)

// goneEvery is how often a process that was told to end is looked for.
const goneEvery = 5 * time.Millisecond

// Find says which process has the number now. Where that cannot be told (no such process, or another system than Linux), Started is
// "", and the process can never be signalled by the record.
func Find(pid int) Process {
	return Process{PID: pid, Started: startOf(pid), Host: bootID(), Mark: markOf(pid)}
}

// Lives reports whether this very process runs: number, start time and boot agree, and it is more than a corpse that nobody has
// collected. An error says that this cannot be told here. What it has started may live on: see Signal.
func (p Process) Lives() (bool, error) { return lives(p) }

// AwaitEnd waits until the process is gone.
func (p Process) AwaitEnd(ctx context.Context) error {
	return p.await(ctx, func() (bool, error) {
		alive, err := p.Lives()
		return !alive, err
	})
}

// Signal sends a signal to all that was started as this process: itself and what is in its group, in its session or carries its mark,
// also where the process itself is dead; of one that is Alone, to itself, by a handle that no other process is reached by. none = nothing of it is left. An error says that this cannot be told, or that its group has a
// process that does not carry its mark: that one is not touched. Signal 0 only asks.
func (p Process) Signal(sig syscall.Signal) (none bool, err error) {
	if p.Alone {
		return p.signalAlone(sig)
	}
	all, err := p.members()
	for _, pid := range all {
		if failed := syscall.Kill(pid, sig); failed != nil && !errors.Is(failed, syscall.ESRCH) {
			err = errors.Join(err, fmt.Errorf("signal process %d: %w", pid, failed))
		}
	}
	return len(all) == 0 && err == nil, err
}

// Members are the processes that Signal signals.
func (p Process) Members() ([]int, error) { return p.members() }

// End kills all that was started as this process, and waits until nothing of it is left. SIGKILL ends what stands still as well.
func (p Process) End(ctx context.Context) error {
	if p.Alone {
		return fmt.Errorf("process %d is somebody's own: it is not ended", p.PID)
	}
	return p.await(ctx, func() (bool, error) { return p.Signal(syscall.SIGKILL) })
}

// EndMarked kills every process that carries the mark, and waits until there is none.
func EndMarked(ctx context.Context, mark string) error {
	return await(ctx, "what carries the mark "+mark, func() (bool, error) { return endMarked(mark) })
}

func (p Process) await(ctx context.Context, gone func() (bool, error)) error {
	return await(ctx, fmt.Sprintf("process %d", p.PID), gone)
}

func await(ctx context.Context, what string, gone func() (bool, error)) error {
	for range poll.Every(ctx, goneEvery) {
		if over, err := gone(); err != nil || over {
			return err
		}
	}
	return fmt.Errorf("wait for the end of %s: %w", what, ctx.Err())
}
