package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/undo"
)

const (
	WatchdogLog    = "watchdog.log"
	byWatchdog     = "watchdog"
	watchdogWithin = time.Minute // for its end after the runner's: longer only where undoing hangs, and then it goes on alone

	watchEvery   = time.Second      // how often it looks for what is overdue
	hungEvery    = 10 * time.Second // and after it could not end all of that
	busyEvery    = 200 * time.Millisecond
	busyWithin   = 30 * time.Second // somebody else is undoing
	watchdogLeft = 20               // its exit status where something is left
	lastAttempt  = 3                // of undoing everything; afterwards it is up to recover
)

// watchdog is the runner's handle of the process that undoes what a dead runner has left.
type watchdog struct {
	runner *os.File // the write end of a pipe that nobody else has: its end is the runner's
	done   chan struct{}
	log    string
}

// startWatchdog starts it in a session of its own: what ends the runner's process group, a terminal or a job of a CI, leaves it alone.
func startWatchdog(dir string, notify func(string)) (*watchdog, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start watchdog: find the own binary: %w", err)
	}
	w := &watchdog{done: make(chan struct{}), log: filepath.Join(dir, WatchdogLog)}
	log, err := os.OpenFile(w.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start watchdog: %w", err)
	}
	defer log.Close()
	read, write, err := os.Pipe() // both ends close on exec: no replica holds the write end open
	if err != nil {
		return nil, fmt.Errorf("start watchdog: %w", err)
	}
	defer read.Close()
	cmd := exec.Command(self, "watchdog", dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = string(filepath.Separator), log, log, []*os.File{read}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start watchdog: %w", errors.Join(err, write.Close(), os.Remove(w.log)))
	}
	w.runner = write
	go func() {
		defer close(w.done)
		_ = cmd.Wait()
		if state := cmd.ProcessState; !state.Success() && state.ExitCode() != watchdogLeft {
			notify(fmt.Sprintf("lockdrill: the watchdog has ended (%s): if this run is killed now, use: lockdrill recover %s", state, dir))
		}
	}()
	return w, nil
}

// Close tells the watchdog that the runner is done, and waits for it. A watchdog that was never started has nothing to close.
func (w *watchdog) Close() {
	if w == nil {
		return
	}
	_ = w.runner.Close()
	limit := time.NewTimer(watchdogWithin)
	defer limit.Stop()
	select {
	case <-w.done:
		dropEmpty(w.log) // one that was killed has not done it
	case <-limit.C:
	}
}

// dropEmpty removes a log that says nothing.
func dropEmpty(path string) {
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		_ = os.Remove(path)
	}
}

// Watch is the process that a run starts to outlive it. It ends what is overdue while the runner lives, and everything when it does not;
// runner is at its end when the runner is. report is told what was undone. A Dirty error: something is left.
func Watch(ctx context.Context, dir string, runner io.Reader, report func(undo.Report, error)) error {
	over := make(chan struct{})
	go func() { // ends with the runner, or with this process
		_, _ = io.Copy(io.Discard, runner)
		close(over)
	}()
	defer dropEmpty(filepath.Join(dir, WatchdogLog))
	path := filepath.Join(dir, undo.File)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return takeOver(ctx, dir, report)
		case <-tick.C:
		}
		r, err := undo.Overdue(ctx, path, reverters(false, Cluster{}), byWatchdog, time.Now())
		if r.Closed || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		report(r, err)
		tick.Reset(watchEvery)
		if err != nil || len(r.Left()) > 0 {
			tick.Reset(hungEvery)
		}
	}
}

// takeOver undoes everything that a dead runner has left, and tries again where that fails.
func takeOver(ctx context.Context, dir string, report func(undo.Report, error)) error {
	pause := busyEvery
	for n := 1; ; n++ {
		r, err := recoverWhenFree(ctx, dir, byWatchdog, Cluster{})
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		report(r, err)
		if err == nil && len(r.Left()) == 0 || errors.Is(err, undo.ErrBusy) { // who is at it so long is at it
			return nil
		}
		if n == lastAttempt {
			return &Error{verdict.ExitDirty, fmt.Errorf("given up; try again with: lockdrill recover %s", dir)}
		}
		pause *= 4
		<-time.After(pause)
	}
}

// Recover undoes what a run has left whose runner is dead; at says how its cluster is reached from here.
func Recover(ctx context.Context, dir string, at Cluster) (undo.Report, error) {
	r, err := recoverWhenFree(ctx, dir, "recover", at)
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, undo.ErrBusy) && !r.Closed {
		dropEmpty(filepath.Join(dir, WatchdogLog))
	}
	return r, err
}

// recoverWhenFree undoes what is left, and removes the folder of the stores; it waits for another process that is at it, or that is
// still dying.
func recoverWhenFree(ctx context.Context, dir, by string, at Cluster) (undo.Report, error) {
	limit := time.NewTimer(busyWithin)
	defer limit.Stop()
	again := time.NewTicker(busyEvery)
	defer again.Stop()
	for {
		r, err := undo.Recover(ctx, filepath.Join(dir, undo.File), reverters(true, at), by)
		if err == nil && len(r.Left()) == 0 {
			_ = removeFolder(filepath.Join(dir, storesFolder)) // not empty: there is more than was written down
		}
		if !errors.Is(err, undo.ErrBusy) {
			return r, err
		}
		select {
		case <-again.C:
		case <-limit.C:
			return r, err
		case <-ctx.Done():
			return r, errors.Join(err, ctx.Err())
		}
	}
}
