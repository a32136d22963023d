package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/drill"
	"github.com/lockdrill/lockdrill/experiments/rehearsal"
	"github.com/lockdrill/lockdrill/experiments/sweep"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"

	"github.com/spf13/cobra"
)

type sweepFlags struct {
	dials     map[string]*string
	lock      string
	live      bool
	seeds     int64
	failAbove float64
	steps     int
	finer     int
	page      string
	seed      int64
	output    *output
	consent   drill.Consent
}

// Bounds of a sweep: each step is a drill.
const (
	sweepSeeds = 50
	sweepSteps = 6
	sweepFiner = 3
	mostSteps  = 100
)

func newSweepCmd(io streams) *cobra.Command {
	f := sweepFlags{dials: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "sweep FILE|NAME",
		Short: "Raise the load until a promise breaks",
		Long: "sweep raises one setting of an experiment, step by step, until a promise breaks or this machine is too slow to tell. Then it\n" +
			"looks more closely between the last two steps. It prints the safe ceiling as a range: the highest value at which everything\n" +
			"held, and the lowest at which it did not. Each step is rehearsed in virtual time, or drilled for real with --live.\n" +
			"A rehearsal has no slow machine: what breaks there is the lock's own timings. A higher rate comes with more jobs, so that the\n" +
			"stream lasts as long.\n\n" +
			"Exit status: 0 a value that held was found; 10 a promise breaks at the lowest value; 11 no value held, and no promise broke.",
		Example: "  lockdrill sweep first-drill --rate 5/s..500/s\n  lockdrill sweep first-drill --live --lock job --rate 10/s..200/s --page sweep.html",
		Args:    cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	for _, d := range []struct{ dial, what string }{
		{sweep.Rate, "FROM..TO: jobs a second, such as 10/s..200/s"}, {sweep.Replicas, "FROM..TO: replicas, such as 3..12"},
		{sweep.Hold, "FROM..TO: the median of a job's work, such as 50ms..2s; its p99 keeps the same ratio"},
	} {
		f.dials[d.dial] = flags.String(d.dial, "", d.what)
	}
	flags.StringVar(&f.lock, "lock", "", "whose stream of jobs (default: the only one)")
	flags.BoolVar(&f.live, "live", false, "drill each step in real time")
	flags.Int64Var(&f.seeds, "seeds", sweepSeeds, "rehearsed: drills a step")
	flags.Float64Var(&f.failAbove, "fail-above", 0, "rehearsed: share of the seeds, 0 to 1, that may break a promise")
	flags.IntVar(&f.steps, "steps", sweepSteps, "values from FROM to TO, each the same factor above the one before")
	flags.IntVar(&f.finer, "finer", sweepFiner, "values that are then tried between the last that held and the first that did not")
	flags.StringVar(&f.page, "page", "", "file for a page with a picture of each promise")
	flags.Int64Var(&f.seed, "seed", 0, "live: seed of every random choice (default: the file's, else a new one)")
	consentFlags(flags, &f.consent)
	f.output = outputFlag(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), io, args[0]) }
	return cmd
}

func (f *sweepFlags) run(ctx context.Context, io streams, name string) error {
	r, err := f.check()
	if err != nil {
		return err
	}
	e, _, err := loadExperiment(name)
	if err != nil {
		return err
	}
	if r, err = r.For(e, f.lock); err != nil {
		return usagef("lockdrill sweep: %w", err)
	}
	for _, v := range []float64{r.From, r.To} { // before hours are spent on what lies between
		if _, err := r.At(e, v); err != nil {
			return usagef("lockdrill sweep: %w", err)
		}
	}
	try := f.rehearse
	if f.live {
		try = f.drill
		if err := drill.Authorize(ctx, e, f.consent); err != nil {
			return err
		}
	} else if why := rehearsal.Unable(e); why != "" {
		return usagef("%s: %s", name, why)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := r.Find(ctx, f.steps, f.finer, func(ctx context.Context, v float64) (sweep.Step, error) {
		at, err := r.At(e, v)
		if err != nil {
			return sweep.Step{}, usagef("lockdrill sweep: %w", err)
		}
		fmt.Fprintf(io.Err, "%s %s\n", r.Dial, sweep.Value(r.Dial, v))
		return try(ctx, io, at)
	})
	if ctx.Err() != nil {
		return &exitError{code: verdict.ExitAborted, err: errors.New("interrupted: nothing is concluded from a part of a sweep")}
	}
	if err != nil {
		return err
	}
	s.Experiment, s.Live = e.Name, f.live
	if !f.live {
		s.Seeds = f.seeds
	}
	return f.print(io, s)
}

func (f *sweepFlags) check() (sweep.Range, error) {
	var r sweep.Range
	n := 0
	for _, dial := range []string{sweep.Rate, sweep.Replicas, sweep.Hold} {
		if text := *f.dials[dial]; text != "" {
			var err error
			if r, err = sweep.Parse(dial, text); err != nil {
				return r, usagef("lockdrill sweep: %w", err)
			}
			n++
		}
	}
	switch {
	case n != 1:
		return r, usagef("lockdrill sweep: name one dial: --rate, --replicas or --hold, with FROM..TO")
	case f.steps < 2 || f.steps > mostSteps:
		return r, usagef("--steps %d: want 2 to %d", f.steps, mostSteps)
	case f.finer < 0 || f.finer > mostSteps:
		return r, usagef("--finer %d: want 0 to %d", f.finer, mostSteps)
	case f.seeds < 1 || f.seeds > mostSeeds:
		return r, usagef("--seeds %d: want 1 to %d", f.seeds, mostSeeds)
	case !(f.failAbove >= 0 && f.failAbove <= 1):
		return r, usagef("--fail-above %g: want a share from 0 to 1", f.failAbove)
	}
	return r, nil
}

// rehearse is one step in virtual time.
func (f *sweepFlags) rehearse(ctx context.Context, io streams, e *experiments.Experiment) (sweep.Step, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(rehearseGC))
	all, err := rehearsal.Many(ctx, rehearsal.RealTime(e), sim.DefaultNet(), f.seeds, nil)
	if err != nil {
		return sweep.Step{}, err
	}
	return sweep.Rehearsed(all.Document(), f.failAbove), nil
}

// drill is one step in real time: a run like any other, with a folder of its own. What the machine refuses to begin, it cannot carry.
func (f *sweepFlags) drill(ctx context.Context, io streams, e *experiments.Experiment) (sweep.Step, error) {
	d, err := drill.New(drill.Options{Experiment: e, Cluster: f.consent.Cluster, Seed: f.seed, Tool: "lockdrill " + version(), Notify: notifier(io.Err), Begin: toldOn(io.Err)})
	if refused := new(drill.Error); errors.As(err, &refused) && refused.Status == verdict.ExitRefused {
		return sweep.Step{Outcome: sweep.Machine, Why: refused.Error()}, nil
	}
	if err != nil {
		return sweep.Step{}, err
	}
	ending, err := d.Run(ctx)
	if ending != nil {
		printEnding(io.Err, ending)
	}
	if err != nil {
		return sweep.Step{}, err
	}
	r, err := judgeDir(io.Err, d.Dir())
	if err != nil {
		return sweep.Step{}, &exitError{code: verdict.ExitError, err: err}
	}
	if r.Judgement.ExitCode == verdict.ExitDirty {
		return sweep.Step{}, &exitError{code: verdict.ExitDirty, err: fmt.Errorf("%s: not everything was undone: the sweep goes no further", fromHere(d.Dir()))}
	}
	step := sweep.Judged(r.Judgement)
	step.Run = fromHere(d.Dir())
	return step, nil
}

func (f *sweepFlags) print(io streams, s *sweep.Document) error {
	value := func(v float64) string { return sweep.Value(s.Dial, v) }
	if f.page != "" {
		var b bytes.Buffer
		err := reports.Write(&b, reports.Sweep(s, value))
		if err == nil {
			err = writeAtomically(f.page, b.Bytes())
		}
		if err != nil {
			return usagef("--page: %w", err)
		}
	}
	var err error
	if *f.output == outputJSON {
		err = writeJSON(io.Out, s)
	} else {
		err = show(io.Out, reports.Sweep(s, value), doc.Full)
	}
	switch err = unlessUnread(err); {
	case err != nil:
		return err
	case s.Holds != nil:
		return nil
	case s.By == sweep.Broken:
		return status(verdict.ExitSLOFailed)
	}
	return status(verdict.ExitInconclusive)
}
