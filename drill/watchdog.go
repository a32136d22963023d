package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/internal/poll"
)

const (
	WatchdogLog    = "watchdog.log"
	byWatchdog     = "watchdog"
	watchdogWithin = time.Minute // for its end after the runner's: longer only where undoing hangs, and then it goes on alone

	// WatchdogLasts is for all its attempts, where it cannot go on alone: in a container, which ends with its first process.
	WatchdogLasts = lastAttempt * watchdogWithin

	beatEvery    = 100 * time.Millisecond // how often the runner says that it is at work
	stalledAfter = 4 * beatEvery          // without a sign of life it hangs: its faults have the time that was declared for them
	watchEvery   = time.Second            // how often the watchdog looks for what is overdue while the runner is at work
	hungEvery    = 10 * time.Second       // and after it could not end all of that
	busyEvery    = 200 * time.Millisecond
	busyWithin   = 30 * time.Second // somebody else is undoing
	watchdogLeft = 20               // its exit status where something is left
	lastAttempt  = 3                // of undoing everything; afterwards it is up to recover
)

// watchdog is the runner's handle of the process that undoes what a dead runner has left.
type watchdog struct {
	runner *os.File // the write end of a pipe that nobody else has: its end is the runner's
	beats  sync.WaitGroup
	done   chan struct{}
	log    string
}

// startWatchdog starts it in a session of its own: what ends the runner's process group, a terminal or a job of a CI, leaves it alone.
// args say how it undoes.
func startWatchdog(dir string, notify func(string), args ...string) (*watchdog, error) {
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
	cmd := exec.Command(self, append([]string{"watchdog", dir}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = string(filepath.Separator), log, log, []*os.File{read}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start watchdog: %w", errors.Join(err, write.Close(), os.Remove(w.log)))
	}
	w.runner = write
	w.beats.Go(w.beat)
	go func() {
		defer close(w.done)
		_ = cmd.Wait()
		if state := cmd.ProcessState; !state.Success() && state.ExitCode() != watchdogLeft {
			notify(fmt.Sprintf("lockdrill: the watchdog has ended (%s): if this run is killed now, use: lockdrill recover %s", state, dir))
		}
	}()
	return w, nil
}

// beat tells the watchdog that the runner is at work, until the pipe is closed at either end.
func (w *watchdog) beat() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for range tick.C {
		if _, err := w.runner.Write([]byte{'.'}); err != nil {
			return
		}
	}
}

// Close tells the watchdog that the runner is done, and waits for it. A watchdog that was never started has nothing to close.
func (w *watchdog) Close() {
	if w == nil {
		return
	}
	_ = w.runner.Close()
	w.beats.Wait()
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

// Watching says how a watchdog undoes what is left, and who is told.
type Watching struct {
	Cluster Cluster
	Trust   bool // also a journal that somebody else may have written
	Report  func(undo.Report, error)
}

// Watch is the process that a run starts to outlive it. It ends what is overdue while the runner lives, and everything when it does not;
// runner gives signs of life, and is at its end when the runner is. A Dirty error: something is left. It stays with the journal that it
// has opened, also when that has lost its name.
func Watch(ctx context.Context, dir string, runner io.Reader, w Watching) error {
	defer dropEmpty(filepath.Join(dir, WatchdogLog))
	journal, err := undo.Open(dir, w.Trust)
	if err != nil {
		return err
	}
	defer journal.Close()
	return w.watch(ctx, dir, journal, runner)
}

func (w Watching) watch(ctx context.Context, dir string, journal *undo.Found, runner io.Reader) error {
	journal.Look()
	beats, over := make(chan struct{}, 1), make(chan struct{})
	go listen(runner, beats, over)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	last := time.Now()
	next := last.Add(watchEvery)
	for {
		select {
		case <-over:
			return w.takeOver(ctx, dir, journal)
		case <-beats:
			last = time.Now()
			continue
		case <-tick.C:
			journal.Look()
		}
		stalled := time.Since(last) > stalledAfter
		if !stalled && time.Now().Before(next) || stalled && time.Now().Before(next.Add(beatEvery-watchEvery)) {
			continue
		}
		r, err := journal.Overdue(ctx, reverters(false, w.Cluster), byWatchdog, time.Now(), stalled)
		if r.Closed {
			return nil
		}
		w.Cluster.recommendable(&r)
		w.Report(r, err)
		next = time.Now().Add(watchEvery)
		if err != nil || len(r.Left()) > 0 {
			next = time.Now().Add(hungEvery)
		}
	}
}

// listen passes on the runner's signs of life, as many as are taken. It ends with the runner, or with this process.
func listen(runner io.Reader, beats chan<- struct{}, over chan<- struct{}) {
	defer close(over)
	buf := make([]byte, 512)
	for {
		if _, err := runner.Read(buf); err != nil {
			return
		}
		select {
		case beats <- struct{}{}:
		default:
		}
	}
}

// takeOver undoes everything that a dead runner has left, and tries again where that fails.
func (w Watching) takeOver(ctx context.Context, dir string, journal *undo.Found) error {
	pause := busyEvery
	for n := 1; ; n++ {
		r, err := recoverWhenFree(ctx, dir, journal, byWatchdog, w.Cluster)
		w.Report(r, err)
		if (err == nil || journal.Lost() != nil) && len(r.Left()) == 0 || errors.Is(err, undo.ErrBusy) { // who is at it so long is at it
			return nil
		}
		if n == lastAttempt {
			return &Error{verdict.ExitDirty, fmt.Errorf("given up; try again with: lockdrill recover %s", dir)}
		}
		pause *= 4
		<-time.After(pause)
	}
}

// Recover undoes what a run has left whose runner is dead; at says how its cluster is reached from here, trust that the journal is
// believed whoever may have written it, again that the world is asked after what it says is undone.
func Recover(ctx context.Context, dir string, at Cluster, trust, again bool) (undo.Report, error) {
	journal, err := undo.Open(dir, trust)
	if err != nil {
		return undo.Report{}, err
	}
	defer journal.Close()
	r, err := recoverWhenFree(ctx, dir, journal, "recover", at)
	if err == nil && again {
		journal.Again(ctx, &r, reverting(&injectors.Reach{Again: true}, true, at))
	}
	if !errors.Is(err, undo.ErrBusy) && !r.Closed {
		dropEmpty(filepath.Join(dir, WatchdogLog))
	}
	return r, err
}

// recoverWhenFree undoes what is left, and removes the folder of the stores; it waits for another process that is at it, or that is
// still dying.
func recoverWhenFree(ctx context.Context, dir string, journal *undo.Found, by string, at Cluster) (undo.Report, error) {
	within, cancel := context.WithTimeout(ctx, busyWithin)
	defer cancel()
	var r undo.Report
	var err error
	for range poll.Every(within, busyEvery) {
		r, err = journal.Recover(ctx, reverters(true, at), by)
		at.recommendable(&r)
		if err == nil && len(r.Left()) == 0 {
			_ = removeFolder(filepath.Join(dir, storesFolder)) // not empty: there is more than was written down
		}
		if !errors.Is(err, undo.ErrBusy) {
			return r, err
		}
	}
	return r, errors.Join(err, ctx.Err())
}
