package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
)

// endings are the signals that ask a command to end in order: Ctrl-C, what ends a job, and the end of a terminal, unless the command was
// started with nohup.
func endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// unread makes a write to a pipe that nobody reads any more fail, and not end the process, for the commands that change something or whose
// status a gate reads: they do their work to its end, and their status is its own. It is not inherited: what they start ends as ever.
func unread(args []string) {
	if len(args) > 0 && slices.Contains([]string{"run", "judge", "history", "recover"}, args[0]) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // never read
	}
}

// unlessUnread is err, unless it says that nobody reads what was written: the pipe has no reader, or the terminal was closed.
func unlessUnread(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) && onTerminal() {
		return nil
	}
	return err
}

// onTerminal reports that what is written goes to a terminal, which may have been closed, and not to a disk, which may have failed.
func onTerminal() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// supervise is what lockdrill does as the first process of a container: it starts itself again, passes signals on, and collects the
// processes that nobody else does. The kernel lets no signal end a first process, not even that of its own crash, so its crash would
// have the status of a wrong flag. Here a child's crash is what it is: not everything may be undone. As the container ends with its first
// process, this one then stays until the watchdog is through.
func supervise(args []string) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintf(os.Stderr, "lockdrill: find the own binary: %v\n", err)
		return verdict.ExitError
	}
	sigs := make(chan os.Signal, 16)
	signal.Notify(sigs, append(endings(), syscall.SIGQUIT)...)
	died := make(chan os.Signal, 1) // one says it of all
	signal.Notify(died, syscall.SIGCHLD)
	cmd := exec.Command(self)
	cmd.Args = args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "lockdrill: start the own binary: %v\n", err)
		return verdict.ExitError
	}
	for {
		select {
		case s := <-sigs:
			_ = cmd.Process.Signal(s)
		case <-died:
			end, others := reap(cmd.Process.Pid)
			switch {
			case end == nil && others:
				continue
			case end == nil:
				fmt.Fprintln(os.Stderr, "lockdrill: it cannot be told how the run has ended: lockdrill recover --all says whether everything is undone")
				return verdict.ExitDirty
			case end.Exited() && end.ExitStatus() != verdict.ExitDirty:
				return end.ExitStatus()
			case end.Signaled():
				fmt.Fprintf(os.Stderr, "lockdrill: ended by %s: lockdrill recover --all says whether everything is undone\n", end.Signal())
			}
			if others {
				outlast(sigs, died)
			}
			return verdict.ExitDirty
		}
	}
}

// reap collects all children that have ended. It returns how that one did, nil if it is not among them, and whether others live.
func reap(pid int) (end *syscall.WaitStatus, others bool) {
	for {
		var status syscall.WaitStatus
		switch one, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return end, false
		case one == 0:
			return end, true
		case one == pid:
			end = &status
		}
	}
}

// outlast waits for the children that are left, the watchdog among them. What asks this process to end meanwhile, as a kubelet does, leaves
// the watchdog the time that there is; the second time is obeyed.
func outlast(sigs, died <-chan os.Signal) {
	fmt.Fprintf(os.Stderr, "lockdrill: waiting up to %s for the watchdog, which undoes what is left and would end with this process\n", drill.WatchdogLasts)
	limit := time.NewTimer(drill.WatchdogLasts)
	defer limit.Stop()
	for asked := false; ; {
		select {
		case <-died:
			if _, others := reap(0); !others {
				return
			}
		case s := <-sigs:
			if asked && s != syscall.SIGHUP { // a terminal that ends says so more than once
				fmt.Fprintln(os.Stderr, "lockdrill: left at once, and the watchdog with it")
				return
			}
			asked = true
			fmt.Fprintf(os.Stderr, "lockdrill: %s: still waiting for the watchdog; once more, and both end at once\n", s)
		case <-limit.C:
			fmt.Fprintf(os.Stderr, "lockdrill: processes are left after %s, and end now\n", drill.WatchdogLasts)
			return
		}
	}
}
