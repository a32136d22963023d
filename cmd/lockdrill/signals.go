package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
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
