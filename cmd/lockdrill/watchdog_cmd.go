package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/drill"
	"github.com/lockdrill/lockdrill/experiments/undo"
)

// newWatchdogCmd is the process that a run starts to outlive it; file 3 is the read end of the pipe.
func newWatchdogCmd(io streams) *cobra.Command {
	w := drill.Watching{Report: func(r undo.Report, err error) { recordUndone(io.Err, r, err) }}
	cmd := &cobra.Command{
		Use:    "watchdog DIR",
		Short:  "Waits for the runner's end and undoes what it has left: a run starts it (docs/undo.md)",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			pipe := os.NewFile(3, "runner")
			if info, err := pipe.Stat(); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
				return usagef("lockdrill watchdog: a run starts it; to undo what a run has left: lockdrill recover %s", args[0])
			}
			// What ends a job asks every process of it to end: the runner obeys, and this one ends when that is done.
			signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
			err := drill.Watch(context.WithoutCancel(cmd.Context()), args[0], pipe, w)
			if left := new(drill.Error); errors.As(err, &left) {
				fmt.Fprintln(io.Err, left)
				return status(verdict.ExitDirty)
			}
			return err
		},
	}
	whereFlags(cmd.Flags(), &w.Cluster)
	cmd.Flags().BoolVar(&w.Trust, "trust", false, "as run and recover have it")
	return cmd
}
