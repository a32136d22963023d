package main

import (
	"context"
	"errors"
	"fmt"
	stdio "io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/workercheck"
	"github.com/lockdrill/lockdrill/internal/figures"
)

func newWorkerCheckCmd(io streams) *cobra.Command {
	var o workercheck.Options
	cmd := &cobra.Command{
		Use:   "worker-check [flags] -- COMMAND [ARGUMENT...]",
		Short: "Check that a worker of yours speaks the worker protocol",
		Long: "worker-check starts COMMAND as a drill would, goes through the worker protocol with it, and says for each step whether it is\n" +
			"right. For a wrong step it says what it expected, what it saw, what to change, and which part of docs/worker-protocol.md says so.\n" +
			"The locks are in a redis-server that the check starts, or in the embedded store if there is no redis-server.\n\n" +
			"Exit status: 0 every step is right; 10 a step is wrong; 11 no step is wrong, but one was not seen.",
		Example: "  lockdrill worker-check -- python3 scenarios/workers/python/worker.py\n" +
			"  lockdrill worker-check --only loops --ttl 5s -- python3 scenarios/workers/python/worker.py",
		Args: cobra.MinimumNArgs(1),
	}
	format := formFlags(cmd, io)
	cmd.Flags().DurationVar(&o.TTL, "ttl", workercheck.DefaultTTL, "TTL of the locks; every other time of the check follows from it")
	cmd.Flags().DurationVar(&o.Ready, "ready", workercheck.DefaultReady, "how long the worker may take until it is ready")
	cmd.Flags().StringVar((*string)(&o.Only), "only", "", "jobs or loops: check a worker that does only one of them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Command = args
		o.Notify = func(what string) { fmt.Fprintf(io.Err, "checking    %s\n", what) }
		return checkWorker(cmd.Context(), io, o, *format)
	}
	return cmd
}

func checkWorker(ctx context.Context, io streams, o workercheck.Options, format output) error {
	r, err := workercheck.Run(ctx, o)
	switch {
	case errors.Is(err, workercheck.ErrOptions):
		return usagef("lockdrill worker-check: %w; see lockdrill worker-check --help", err)
	case errors.As(err, new(*workercheck.LeftError)):
		return &exitError{code: verdict.ExitDirty, err: fmt.Errorf("lockdrill worker-check: %w", err)}
	case err != nil && ctx.Err() != nil:
		return &exitError{code: verdict.ExitAborted, err: errors.New("lockdrill worker-check: interrupted; what it started has been ended")}
	case err != nil:
		return fmt.Errorf("lockdrill worker-check: %w", err)
	}
	if format == outputJSON {
		err = writeJSON(io.Out, r)
	} else {
		err = printCheck(io.Out, r)
	}
	switch {
	case err != nil:
		return err
	case r.Count(workercheck.Wrong) > 0:
		return status(verdict.ExitSLOFailed)
	case r.Count(workercheck.NotSeen) > 0:
		return status(verdict.ExitInconclusive)
	}
	return nil
}

func printCheck(w stdio.Writer, r *workercheck.Report) error {
	var b strings.Builder
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "%-8s  %-17s  %s", s.Result, s.Name, s.Title)
		if s.Result != workercheck.Wrong {
			fmt.Fprintf(&b, ": %s\n", s.Seen)
			continue
		}
		fmt.Fprintf(&b, "\n          expected  %s\n          seen      %s\n          change    %s\n          read      docs/worker-protocol.md, %q\n", s.Expected, s.Seen, s.Change, s.Section)
	}
	took := time.Duration(r.Seconds * float64(time.Second))
	fmt.Fprintf(&b, "\n%s: %d right, %d wrong, %d not seen; protocol version %d, %s\n", figures.Plural(len(r.Steps), "step"),
		r.Count(workercheck.OK), r.Count(workercheck.Wrong), r.Count(workercheck.NotSeen), r.Protocol, figures.Spell(took.Round(100*time.Millisecond)))
	_, err := stdio.WriteString(w, b.String())
	return err
}
