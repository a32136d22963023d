package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/drill"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports"
)

func newRecoverCmd(io streams) *cobra.Command {
	var all bool
	var at drill.Cluster
	cmd := &cobra.Command{
		Use:   "recover DIR|--all",
		Short: "Undo what a killed run has left",
		Long: "recover reads the undo journal of a run that is over and undoes what is left of it: faults, replicas, servers, proxies, keys, pods.\n" +
			"It may be run again at any time. DIR is the run's folder, or the name of one in runs/ (such as latest).\n" +
			"0: nothing is left. 20: something is, with the commands for a person. 13: the runner lives. See docs/undo.md.",
		Args: cobra.MaximumNArgs(1),
	}
	whereFlags(cmd.Flags(), &at)
	cmd.Flags().BoolVar(&all, "all", false, "every run in "+runsFolder+"/")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case all == (len(args) == 1):
			return usagef("lockdrill recover: name either the folder of a run or --all; see lockdrill recover --help")
		case all:
			return recoverAll(cmd.Context(), io, at)
		}
		dir, err := filepath.EvalSymlinks(runFolder(args[0]))
		if err != nil || !isDir(dir) {
			return usagef("%s: no such folder; runs are folders such as %s", args[0], filepath.Join(runsFolder, "latest"))
		}
		return recoverDir(cmd.Context(), io, dir, at)
	}
	return cmd
}

// recoverAll does every run of runs/, each even if another fails.
func recoverAll(ctx context.Context, io streams, at drill.Cluster) error {
	dirs := drill.Journals(runsFolder)
	code := verdict.ExitPass
	for _, dir := range dirs {
		err := recoverDir(ctx, io, dir, at)
		if err == nil {
			continue
		}
		end := exitOf(err)
		if end.err != nil {
			fmt.Fprintln(io.Err, reports.Harmless(end.err.Error()))
		}
		code = verdict.WorstExit(code, end.code)
	}
	if len(dirs) == 0 {
		fmt.Fprintf(io.Out, "%s: no run has a journal: nothing to undo\n", runsFolder)
	}
	return status(code)
}

func recoverDir(ctx context.Context, io streams, dir string, at drill.Cluster) error {
	c, err := undo.Read(filepath.Join(dir, undo.File))
	if err == nil && !c.Closed && drill.Runs(c.Header) {
		pid := c.Header.Runner.PID
		return &exitError{code: verdict.ExitRefused, err: fmt.Errorf("%s: refused: the runner lives (process %d) and undoes its faults itself; to end it: kill -INT %d; if it hangs: kill -KILL %d, and its watchdog undoes them", dir, pid, pid, pid)}
	}
	r, err := drill.Recover(ctx, dir, at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(dir, historyFile)); err != nil {
			return usagef("%s: not the folder of a run: it has neither %s nor %s", dir, undo.File, historyFile)
		}
		fmt.Fprintf(io.Out, "%s: the run has no journal: nothing to undo\n", dir)
		return nil
	case errors.Is(err, undo.ErrBusy):
		return &exitError{code: verdict.ExitRefused, err: fmt.Errorf("%s: refused: somebody is undoing it already (the watchdog, or another recover); try again when that is through", dir)}
	case r.Closed:
		fmt.Fprintf(io.Out, "%s: closed: nothing to undo\n", dir)
		return nil
	}
	if r.Header.Run != "" {
		fmt.Fprintf(io.Out, "%s: run %s\n", dir, r.Header.Run)
	}
	recordUndone(io.Out, r, nil)
	if left := len(r.Left()); err != nil || left > 0 {
		why := figures.Plural(left, "change") + " left"
		if err != nil {
			why = "the journal could not be read or written"
		}
		fmt.Fprintf(io.Out, "%s: NOT CLOSED: %s; try again with: lockdrill recover %s\n", dir, why, dir)
		return &exitError{code: verdict.ExitDirty, err: err}
	}
	fmt.Fprintf(io.Out, "%s: closed: everything is undone\n", dir)
	return nil
}
