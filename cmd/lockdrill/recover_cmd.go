package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/regular"
	"github.com/lockdrill/lockdrill/reports"
)

type recoverFlags struct {
	at    drill.Cluster
	trust bool
	again bool // the world is asked after what a journal says is undone
}

func newRecoverCmd(io streams) *cobra.Command {
	var all bool
	var f recoverFlags
	cmd := &cobra.Command{
		Use:   "recover DIR|--all",
		Short: "Undo what a killed run has left",
		Long: "recover reads the undo journal of a run that is over, and undoes what is left of it: faults, replicas, servers, proxies, keys, pods.\n" +
			"You may repeat it at any time. DIR is the folder of the run, or the name of one in runs/ (such as latest).\n" +
			"It obeys a journal only if nobody else can have written it; --trust lifts that. See docs/undo.md.\n\n" +
			"Exit status 0: nothing is left. 20: something is left; the commands to undo it by hand are printed. 13: the runner is still\n" +
			"alive, or the journal is not trusted.",
		Example: "  lockdrill recover latest\n  lockdrill recover --all",
		Args:    cobra.MaximumNArgs(1),
	}
	whereFlags(cmd.Flags(), &f.at)
	cmd.Flags().BoolVar(&f.trust, "trust", false, "undo by the word of a journal that somebody else may have written: who wrote it decides what is ended and removed")
	cmd.Flags().BoolVar(&all, "all", false, "every run in "+runsFolder+"/")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case all == (len(args) == 1), len(args) == 1 && args[0] == "":
			return usagef("lockdrill recover: name either the folder of a run or --all; see lockdrill recover --help")
		case all:
			return recoverAll(cmd.Context(), io, f)
		}
		dir := runFolder(args[0])
		if err := wantFolder(args[0], dir); err != nil {
			return err
		}
		f.again = true // of one run: those of years ago name servers that are long gone
		return recoverDir(cmd.Context(), io, dir, f)
	}
	return cmd
}

// recoverAll does every run of runs/, each even if another fails.
func recoverAll(ctx context.Context, io streams, f recoverFlags) error {
	dirs := append(drill.Journals(runsFolder), drill.WithoutJournal(runsFolder)...)
	code := verdict.ExitPass
	for _, dir := range dirs {
		err := recoverDir(ctx, io, dir, f)
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

// recoverDir does one run. Its folder is asked for by the name that was given: a link is one whatever it leads to.
func recoverDir(ctx context.Context, io streams, named string, f recoverFlags) error {
	if err := undo.Trusted(named); err != nil {
		if !errors.As(err, new(*undo.UntrustedError)) {
			return err
		}
		if errors.Is(err, regular.ErrNoFile) {
			return &exitError{code: verdict.ExitRefused, err: fmt.Errorf("%s: refused: %w: put the run's own back, and recover undoes what it says", named, err)}
		}
		if !f.trust {
			return &exitError{code: verdict.ExitRefused, err: fmt.Errorf("%s: refused: %w; who wrote it decides what is ended and removed: read it, then say --trust", named, err)}
		}
		fmt.Fprintf(io.Err, "lockdrill: --trust: %v; whatever it says is done as if you had said it\n", err)
	}
	dir, err := filepath.EvalSymlinks(named)
	if err != nil {
		return err
	}
	c, err := undo.Read(filepath.Join(dir, undo.File))
	if err == nil && !c.Closed && drill.Runs(c.Header) {
		pid := c.Header.Runner.PID
		return &exitError{code: verdict.ExitRefused, err: fmt.Errorf("%s: refused: the runner lives (process %d) and undoes its faults itself; to end it: kill -INT %d; if it hangs: kill -KILL %d, and its watchdog undoes them", dir, pid, pid, pid)}
	}
	if err == nil {
		if lost, err := drill.Lacks(dir, &c); err == nil && lost != "" {
			return &exitError{code: verdict.ExitDirty, err: fmt.Errorf("%s: the run did not come to a clean end, and somebody has cut its %s: it has lost %s; what the run has left cannot be told; where its watchdog was alive it undid everything (%s)",
				dir, undo.File, lost, drill.WatchdogLog)}
		}
	}
	r, err := drill.Recover(ctx, dir, f.at, f.trust, f.again)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return withoutJournal(io, dir)
	case errors.Is(err, undo.ErrBusy):
		return &exitError{code: verdict.ExitRefused, err: fmt.Errorf("%s: refused: somebody is undoing it already (the watchdog, or another recover); try again when that is through", dir)}
	}
	if r.Header.Run != "" && !r.Closed {
		fmt.Fprintf(io.Out, "%s: run %s\n", dir, r.Header.Run)
	}
	recordUndone(io.Out, r, nil)
	state, why := "NOT CLOSED:", figures.Plural(len(r.Left()), "change")+" left"
	switch {
	case err != nil:
		why = "the journal could not be read or written"
	case len(r.Left()) > 0 && len(r.Open()) == 0:
		state = "closed, and"
	case len(r.Left()) > 0:
	case r.Closed:
		fmt.Fprintf(io.Out, "%s: closed: nothing to undo\n", dir)
		return nil
	default:
		fmt.Fprintf(io.Out, "%s: closed: everything is undone\n", dir)
		return nil
	}
	fmt.Fprintf(io.Out, "%s: %s %s; try again with: lockdrill recover %s\n", dir, state, why, dir)
	return &exitError{code: verdict.ExitDirty, err: err}
}

// withoutJournal says what is known of a run whose journal is not there.
func withoutJournal(io streams, dir string) error {
	finished, err := drill.Finished(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usagef("%s: not the folder of a run: it has neither %s nor %s", dir, undo.File, historyFile)
	case err != nil:
		return err
	case finished:
		fmt.Fprintf(io.Out, "%s: the run has no journal: nothing to undo\n", dir)
		return nil
	}
	return &exitError{code: verdict.ExitDirty, err: fmt.Errorf("%s: the run did not come to a clean end, and its %s is gone: what it has left cannot be told; where its watchdog was alive it undid everything (%s)",
		dir, undo.File, drill.WatchdogLog)}
}

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
