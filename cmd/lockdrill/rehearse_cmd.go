package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"

	"github.com/spf13/cobra"
)

type rehearseFlags struct {
	seeds     int64
	failAbove float64
	replay    int64
	out       string
	sweep     string
	output    *output
}

// rehearseSeeds is how many drills are rehearsed where nobody says how many: seconds for the shipped scenarios.
const rehearseSeeds = 200

// mostSeeds are more than anybody waits for: what never breaches in so many does so in less than one of 300,000, with 95% confidence.
const mostSeeds = 1_000_000

// rehearseGC lets the heap grow to five times what is in use, which is a few MB for each core, before it is swept: a seed hardly
// allocates, so sweeping would cost more than judging.
const rehearseGC = 400

func newRehearseCmd(io streams) *cobra.Command {
	var f rehearseFlags
	cmd := &cobra.Command{
		Use:   "rehearse FILE|NAME",
		Short: "Run a drill many times in virtual time, at its real durations",
		Long: "rehearse runs the same drill in virtual time, once for each seed. The lock core and the conductor are those of a live run;\n" +
			"network, stores and faults are simulated. It touches nothing. It says nothing about a live system: a rehearsed verdict never\n" +
			"counts as a live one. The time scale of the file is ignored.\n\n" +
			"Exit status 10: a promise breaks in more seeds than --fail-above allows. 11: a seed did not provoke what the file expects, or\n" +
			"no seed measured what an SLO promises.\n\n" +
			"--sweep raises one dial, step by step, until a promise breaks, and then looks more closely between the last two steps. It prints\n" +
			"the safe ceiling as a range: the highest value at which everything held, and the lowest at which it did not. A rehearsal has no\n" +
			"slow machine: what breaks there is the lock's own timings. A higher rate comes with more jobs, so that the stream lasts as long.\n" +
			"Exit status of a sweep: 0 a value that held was found; 10 a promise breaks at the lowest value; 11 no value held, and none broke.",
		Example: "  lockdrill rehearse first-drill\n  lockdrill rehearse first-drill --sweep rate=5/s..500/s,steps=3 --seeds 5\n  lockdrill rehearse first-drill --seeds 1000 --fail-above 0.01",
		Args:    cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.Int64Var(&f.seeds, "seeds", rehearseSeeds, "how many drills, with the seeds from 1 on")
	flags.Float64Var(&f.failAbove, "fail-above", 0, "share of the seeds, 0 to 1, that may breach a limit")
	flags.Int64Var(&f.replay, "replay", 0, "write the history of this seed as a run's folder, and rehearse nothing else")
	cmd.ValidArgsFunction = completed(scenarioNames)
	sweepFlag(flags, &f.sweep)
	flags.StringVar(&f.out, "out", "", "folder for --replay (default runs/rehearsal-<name>-<seed>)")
	f.output = documentFlags(cmd, io)
	values := setFlag(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(cmd.Flags()); err != nil {
			return err
		}
		if f.sweep != "" {
			s := sweeping{seeds: f.seeds, failAbove: f.failAbove, values: *values, format: *f.output}
			if !cmd.Flags().Changed("seeds") {
				s.seeds = sweepSeeds
			}
			if err := s.parse(f.sweep); err != nil {
				return err
			}
			return s.run(cmd.Context(), io, args[0])
		}
		e, _, err := loadExperiment(args[0], *values...)
		if err != nil {
			return err
		}
		if why := rehearsal.Unable(e); why != "" {
			return usagef("%s: %s", args[0], why)
		}
		e = rehearsal.RealTime(e)
		warnOfRehearsing(io.Err, e)
		if f.replay != 0 {
			return f.replayOne(cmd.Context(), io, e)
		}
		return f.many(cmd.Context(), io, e, typed(args[0], given(cmd.Flags(), "set")))
	}
	return cmd
}

func (f *rehearseFlags) check(flags *pflag.FlagSet) error {
	switch {
	case f.replay != 0 && (flags.Changed("seeds") || flags.Changed("fail-above")):
		return usagef("--replay rehearses one seed: --seeds and --fail-above do not go with it")
	case f.seeds < 1 || f.seeds > mostSeeds:
		return usagef("--seeds %d: want 1 to %d", f.seeds, mostSeeds)
	case !(f.failAbove >= 0 && f.failAbove <= 1):
		return usagef("--fail-above %g: want a share from 0 to 1", f.failAbove)
	case f.replay < 0:
		return usagef("--replay %d: seeds are 1 or more", f.replay)
	case f.sweep != "" && f.replay != 0:
		return usagef("--sweep rehearses many drills, and --replay one: give one of the two")
	case f.out != "" && f.replay == 0:
		return usagef("--out is the folder of a seed's history: it goes with --replay SEED")
	}
	return nil
}

// warnOfRehearsing says what a rehearsal of e leaves out.
func warnOfRehearsing(w io.Writer, e *experiments.Experiment) {
	if len(e.System.Worker) > 0 {
		fmt.Fprintln(w, "warning: system.worker is not rehearsed: the replicas are lockdrill's own lock core")
	}
	if len(e.Probes.Metrics) > 0 {
		fmt.Fprintln(w, "warning: metrics are not rehearsed: SLOs on them have no figures")
	}
	for i := range e.Faults {
		if why := rehearsal.WhyNot(&e.Faults[i]); why != "" {
			fmt.Fprintf(w, "warning: fault %s is not rehearsed: %s\n", e.Faults[i].ID, why)
		}
		if what := rehearsal.Simpler(&e.Faults[i]); what != "" {
			fmt.Fprintf(w, "warning: fault %s: %s\n", e.Faults[i].ID, what)
		}
	}
}

func (f *rehearseFlags) many(ctx context.Context, io streams, e *experiments.Experiment, name string) error {
	defer debug.SetGCPercent(debug.SetGCPercent(rehearseGC))
	all, err := rehearseSeedsOf(ctx, io.Err, e, f.seeds)
	if ctx.Err() != nil {
		return &exitError{code: verdict.ExitAborted, err: fmt.Errorf("interrupted after %s of %d: nothing is concluded from a part", figures.Plural(all.Seeds, "seed"), f.seeds)}
	}
	if err != nil {
		return err
	}
	made := all.Document()
	made.FailAbove = f.failAbove
	err = present(io, *f.output, made, reports.Rehearsal(made, "lockdrill rehearse "+name+" --replay"), doc.Full, doc.Full)
	switch {
	case err != nil:
		return err
	case made.Breach > f.failAbove:
		return status(verdict.ExitSLOFailed)
	case !made.Provoked(), !made.Measured():
		return status(verdict.ExitInconclusive)
	}
	return nil
}

// replayOne writes one seed as the folder of a run, so that judge and reports work on it.
func (f *rehearseFlags) replayOne(ctx context.Context, io streams, e *experiments.Experiment) error {
	dir := f.out
	if dir == "" {
		dir = filepath.Join(runsFolder, fmt.Sprintf("rehearsal-%s-%d", e.Name, f.replay))
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return usagef("%s: the folder is not empty; a rehearsal never writes over a run", dir)
	}
	d, err := rehearsal.New(e, sim.DefaultNet()).Run(ctx, f.replay)
	if err != nil {
		return err
	}
	resolved, err := experiments.Marshal(e)
	if err != nil {
		return fmt.Errorf("write %s: %w", experimentFile, err)
	}
	d.History.Header.Tool, d.History.Header.Digest = "lockdrill "+version(), experiments.Digest(resolved)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usagef("%s: make the folder: %w", dir, reason(err))
	}
	if err := writeRecorded(dir, resolved, d.History); err != nil {
		return err
	}
	r, err := judgeDir(io.Err, dir)
	if err != nil {
		return err
	}
	return printJudgement(io, *f.output, false, dir, r)
}

// writeRecorded fills a new run's folder. Where that fails nothing stays, as a part looks like a run. As in a live run the history makes
// the folder this rehearsal's own: what another has written there meanwhile is not touched.
func writeRecorded(dir string, resolved []byte, h *history.History) (err error) {
	path := filepath.Join(dir, historyFile)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s: the folder is another run's", dir)
	}
	if err != nil {
		_ = os.Remove(dir)
		return fmt.Errorf("%s: create: %w", path, reason(err))
	}
	defer func() {
		if err == nil {
			return
		}
		for _, name := range []string{historyFile, experimentFile} {
			_ = os.Remove(filepath.Join(dir, name))
		}
		_ = os.Remove(dir)
		err = fmt.Errorf("%s: %w", dir, err)
	}()
	err = writeHistory(file, h)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, experimentFile), resolved, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", experimentFile, reason(err))
	}
	return nil
}

// writeHistory writes a history that is whole, through the recorder of live runs.
func writeHistory(w io.Writer, h *history.History) error {
	at := int64(0)
	rec, err := history.NewRecorder(w, h.Header, func() int64 { return at }, nil)
	if err != nil {
		return err
	}
	for _, e := range h.Events {
		at = e.At
		if _, err := rec.Record(e); err != nil {
			return err
		}
	}
	return nil
}

// rehearseSeedsOf rehearses e with the seeds from 1 on, and says on w every so often how far that is.
func rehearseSeedsOf(ctx context.Context, w io.Writer, e *experiments.Experiment, seeds int64) (*forecast.Rehearsed, error) {
	var done atomic.Int64
	began := time.Now()
	defer sayEvery(w, func() string {
		n := done.Load()
		line := fmt.Sprintf("rehearsed %d of %d seeds", n, seeds)
		if n > 0 {
			left := time.Duration(float64(time.Since(began)) / float64(n) * float64(seeds-n))
			line += ", about " + left.Round(time.Second).String() + " left"
		}
		return line
	})()
	return rehearsal.Many(ctx, e, sim.DefaultNet(), seeds, done.Store) // of two counts that come at once the last stays: it is a figure for people
}
