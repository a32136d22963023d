package injectors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/internal/procstat"
)

const (
	stateEvery = 2 * time.Millisecond  // how often the states of processes are read until they have changed
	watchEvery = 25 * time.Millisecond // and as long as they ought to stay
	dieWithin  = 2 * time.Second       // from SIGKILL until the process is gone, on a machine that is busy
	stopWithin = 2 * time.Second       // from SIGSTOP until every thread stands, and from SIGCONT until they go
)

// errGone: no process of the group is left.
var errGone = errors.New("the process is gone")

// standing reports whether every thread of every process that belongs to p is stopped, and whether any is: of its group, or of it alone.
// It reads /proc.
func standing(p undo.Process) (all, any bool, err error) {
	pids, err := candidates(p)
	if err != nil {
		return false, false, fmt.Errorf("read states of processes: %w", err)
	}
	all = true
	found := false
	for _, pid := range pids {
		state, its, err := stateOf(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || its != p.PID && !p.Alone && p.Forks == "" || dead(state) {
			continue // gone meanwhile, another's, or a corpse
		}
		found = true
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, false, fmt.Errorf("read states of process %d: %w", pid, err)
		}
		for _, t := range tasks {
			state, _, err := stateOf(fmt.Sprintf("/proc/%d/task/%s/stat", pid, t.Name()))
			if err != nil || dead(state) {
				continue
			}
			all, any = all && state == "T", any || state == "T"
		}
	}
	if !found {
		return false, false, errGone
	}
	return all, any, nil
}

// candidates are the processes that may belong to p.
func candidates(p undo.Process) ([]int, error) {
	if p.Alone {
		return []int{p.PID}, nil
	}
	if p.Forks != "" {
		return p.Members()
	}
	return procstat.New().All()
}

// stateOf reads the state and the process group of a stat file; the name that stands before them may contain anything.
func stateOf(path string) (state string, group int, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", 0, err
	}
	fields := strings.Fields(string(data)[strings.LastIndexByte(string(data), ')')+1:])
	if len(fields) < 3 {
		return "", 0, fmt.Errorf("%s has %d fields", path, len(fields))
	}
	group, err = strconv.Atoi(fields[2])
	return fields[0], group, err
}

func dead(state string) bool { return state == "Z" || state == "X" }

// signal sends a signal to the process group, if the process is still that very one; of somebody's own, to the process alone.
func signal(p undo.Process, sig syscall.Signal) error {
	if p.Alone {
		if none, err := p.Signal(sig); err != nil || !none {
			return err
		}
		return errGone
	}
	switch alive, err := p.Lives(); {
	case err != nil:
		return err
	case !alive:
		return errGone
	}
	if p.Forks != "" { // the process first: from then on it forks no more
		err := syscall.Kill(p.PID, sig)
		if err == nil {
			_, err = p.Signal(sig)
		}
		return err
	}
	if err := syscall.Kill(-p.PID, sig); errors.Is(err, syscall.ESRCH) {
		return errGone
	} else if err != nil {
		return fmt.Errorf("signal process group %d: %w", p.PID, err)
	}
	return nil
}

// dying reports whether a process that no longer stands still is on its way to its end.
func dying(ctx context.Context, p undo.Process) bool {
	ctx, cancel := context.WithTimeout(ctx, dieWithin)
	defer cancel()
	return p.AwaitEnd(ctx) == nil
}

// resume continues the process and what it has started, also where it is dead itself, and waits until nothing of that stands still.
// Gone counts as resumed.
func resume(ctx context.Context, p undo.Process) error {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	var last error
	for range poll.Every(ctx, stateEvery) {
		if none, err := p.Signal(syscall.SIGCONT); err != nil || none {
			return err
		}
		_, any, err := standing(p)
		if errors.Is(err, errGone) || err == nil && !any {
			return nil
		}
		last = err
	}
	return fmt.Errorf("continue process %d: it still stands: %w", p.PID, errors.Join(ctx.Err(), last))
}
