package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/drill/sweep"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// sweepFlag is the flag by which run and rehearse sweep.
func sweepFlag(flags *pflag.FlagSet, text *string) {
	flags.StringVar(text, "sweep", "", "raise one dial step by step until a promise breaks: rate, replicas or hold, as rate=10/s..200/s; with ,steps=6 ,finer=3 ,lock=NAME")
}

// sweeping is a sweep: one setting of an experiment is raised until a promise breaks, or this machine is too slow to tell.
type sweeping struct {
	dial      sweep.Range
	lock      string // whose stream of jobs; "" = the only one
	steps     int    // values, each the same factor above the one before
	finer     int    // values between the last that held and the first that did not
	live      bool
	seeds     int64 // rehearsed: drills a step
	failAbove float64
	seed      int64 // live
	values    []string
	format    output
	consent   drill.Consent
	told      storyFlags
}

// Bounds of a sweep: each step is a drill.
const (
	sweepSeeds = 50
	sweepSteps = 6
	sweepFiner = 3
	mostSteps  = 100
)

// parse reads what --sweep says.
func (f *sweeping) parse(text string) error {
	f.steps, f.finer = sweepSteps, sweepFiner
	dials := 0
	for _, pair := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		var err error
		switch name {
		case sweep.Rate, sweep.Replicas, sweep.Hold:
			dials++
			f.dial, err = sweep.Parse(name, value)
		case "lock":
			f.lock = value
		case "steps":
			if f.steps, err = strconv.Atoi(value); err != nil || f.steps < 2 || f.steps > mostSteps {
				return usagef("--sweep: steps=%s: want 2 to %d", value, mostSteps)
			}
		case "finer":
			if f.finer, err = strconv.Atoi(value); err != nil || f.finer < 0 || f.finer > mostSteps {
				return usagef("--sweep: finer=%s: want 0 to %d", value, mostSteps)
			}
		default:
			ok = false
		}
		if !ok {
			return usagef("--sweep %q: there are rate, replicas and hold, each FROM..TO, and steps, finer and lock, as in rate=10/s..200/s,steps=6", pair)
		}
		if err != nil {
			return usagef("--sweep: %w", err)
		}
	}
	if dials != 1 {
		return usagef("--sweep %q: name one dial: rate, replicas or hold, as in rate=10/s..200/s", text)
	}
	return nil
}

func (f *sweeping) run(ctx context.Context, io streams, name string) error {
	e, _, err := loadExperiment(name, f.values...)
	if err != nil {
		return err
	}
	r := f.dial
	if r, err = r.For(e, f.lock); err != nil {
		return usagef("--sweep: %w", err)
	}
	for _, v := range []float64{r.From, r.To} { // before hours are spent on what lies between
		if _, err := r.At(e, v); err != nil {
			return usagef("--sweep: %w", err)
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
			return sweep.Step{}, usagef("--sweep: %w", err)
		}
		f.told.say(io.Err, r.Dial+" "+sweep.Value(r.Dial, v))
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

// rehearse is one step in virtual time.
func (f *sweeping) rehearse(ctx context.Context, io streams, e *experiments.Experiment) (sweep.Step, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(rehearseGC))
	all, err := rehearsal.Many(ctx, rehearsal.RealTime(e), sim.DefaultNet(), f.seeds, nil)
	if err != nil {
		return sweep.Step{}, err
	}
	return sweep.Rehearsed(all.Document(), f.failAbove), nil
}

// drill is one step in real time: a run like any other, with a folder of its own. What the machine refuses to begin, it cannot carry.
func (f *sweeping) drill(ctx context.Context, io streams, e *experiments.Experiment) (sweep.Step, error) {
	dir, r, err := f.told.drill(ctx, io.Err, drill.Options{Experiment: e, Cluster: f.consent.Cluster, Seed: f.seed}, func(string) {})
	if refused := new(drill.Error); dir == "" && errors.As(err, &refused) && refused.Status == verdict.ExitRefused {
		return sweep.Step{Outcome: sweep.Machine, Why: refused.Error()}, nil
	}
	if err != nil {
		return sweep.Step{}, err
	}
	if r.Judgement.ExitCode == verdict.ExitDirty {
		return sweep.Step{}, &exitError{code: verdict.ExitDirty, err: fmt.Errorf("%s: not everything was undone: the sweep goes no further", fromHere(dir))}
	}
	step := sweep.Judged(r.Judgement)
	step.Run = fromHere(dir)
	return step, nil
}

func (f *sweeping) print(io streams, s *sweep.Document) error {
	value := func(v float64) string { return sweep.Value(s.Dial, v) }
	err := unlessUnread(present(io, f.format, s, reports.Sweep(s, value), doc.Full, doc.Full))
	switch {
	case err != nil:
		return err
	case s.Holds != nil:
		return nil
	case s.By == sweep.Broken:
		return status(verdict.ExitSLOFailed)
	}
	return status(verdict.ExitInconclusive)
}
