package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"github.com/lockdrill/lockdrill/analysis/verdict"
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
	if len(args) > 0 && slices.Contains([]string{"run", "gameday", "sweep", "judge", "recover"}, args[0]) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // never read
	}
}

// unlessUnread is err, unless it says that nobody reads what was written.
func unlessUnread(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// supervise is what lockdrill does as the first process of a container: it starts itself again, passes signals on, and collects the
// processes that nobody else does. The kernel lets no signal end a first process, not even that of its own crash, so its crash would
// have the status of a wrong flag. Here a child's crash is what it is: not everything may be undone.
func supervise(args []string) int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintf(os.Stderr, "lockdrill: find the own binary: %v\n", err)
		return verdict.ExitError
	}
	sigs := make(chan os.Signal, 16)
	signal.Notify(sigs, append(endings(), syscall.SIGQUIT)...)
	cmd := exec.Command(self)
	cmd.Args = args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "lockdrill: start the own binary: %v\n", err)
		return verdict.ExitError
	}
	go func() { // ends with this process
		for s := range sigs {
			_ = cmd.Process.Signal(s)
		}
	}()
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintf(os.Stderr, "lockdrill: wait for the own process: %v\n", err)
			return verdict.ExitDirty
		case pid == cmd.Process.Pid && status.Exited():
			return status.ExitStatus()
		case pid == cmd.Process.Pid && status.Signaled():
			fmt.Fprintf(os.Stderr, "lockdrill: ended by %s: lockdrill recover --all says whether everything is undone\n", status.Signal())
			return verdict.ExitDirty
		}
	}
}
