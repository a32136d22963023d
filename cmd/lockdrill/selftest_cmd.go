package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/drill/selftest"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

type selftestFlags struct {
	only     []string
	rehearse bool
	live     bool
	seeds    int64
	scale    float64
	output   *output
}

// selftestSeeds is how often each case is rehearsed: different jobs are struck at different moments.
const selftestSeeds = 3

// selftestScale makes a lease of 1.5s out of the 30s of the shipped classes.
const selftestScale = 0.05

// selftestDoc is the document of `selftest -f json`.
type selftestDoc struct {
	SchemaVersion int               `json:"schemaVersion"`
	Mode          string            `json:"mode"` // rehearsed, live
	Verdict       string            `json:"verdict"`
	Cases         []selftest.Result `json:"cases"`
}

func newSelftestCmd(io streams) *cobra.Command {
	var f selftestFlags
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Drill locks that are wrong on purpose, and see that each is detected",
		Long: "selftest drills locks that are wrong on purpose, each with the fault that reveals it, and the shipped classes with\n" +
			"every fault. It runs in virtual time; with --live, with real processes, a real Redis and real faults, one case after another.\n\n" +
			"Exit status 0: the measure named for each wrong lock detected it, and no right one was accused. 10: a wrong lock was missed,\n" +
			"or a right one accused. 11: a fault did not take place, so its case shows nothing.",
		Example: "  lockdrill selftest\n  lockdrill selftest --live --only lockdrill/standard",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "only the cases of these animals, or of these shipped classes")
	flags.BoolVar(&f.live, "live", false, "with real processes on a redis-server of its own: about 20s a case")
	flags.BoolVar(&f.rehearse, "rehearse", false, "in virtual time: seconds, and it touches nothing (the default)")
	flags.Int64Var(&f.seeds, "seeds", selftestSeeds, "rehearsed drills of each case")
	flags.Float64Var(&f.scale, "time-scale", selftestScale, "of live drills: above 0, at most 1; a larger one for a machine that is busy")
	f.output = formFlags(cmd, io)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cases, err := f.cases()
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return f.run(ctx, io, cases)
	}
	return cmd
}

// cases are those that were asked for.
func (f *selftestFlags) cases() ([]selftest.Case, error) {
	if f.seeds < 1 || f.seeds > mostSeeds {
		return nil, usagef("--seeds %d: want 1 to %d", f.seeds, mostSeeds)
	}
	all := selftest.Matrix()
	if !(f.scale > 0 && f.scale <= 1) {
		return nil, usagef("--time-scale %g: want more than 0, at most 1", f.scale)
	}
	if f.scale != selftestScale && !f.live {
		return nil, usagef("--time-scale goes with --live: a rehearsal takes seconds at the durations of its file")
	}
	if f.live && f.rehearse {
		return nil, usagef("--live and --rehearse: want one of them")
	}
	if len(f.only) == 0 && !f.live {
		return all, nil
	}
	var some []selftest.Case
	var names []string
	for _, c := range all {
		if name := c.Name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if live := !f.live || !c.Scene.Tells; live && (len(f.only) == 0 || slices.Contains(f.only, c.Name())) {
			some = append(some, c)
		}
	}
	for _, name := range f.only {
		if !slices.Contains(names, name) {
			return nil, usagef("--only %s: no such animal or class; there are %s", name, strings.Join(names, ", "))
		}
	}
	if len(some) == 0 {
		return nil, usagef("--live --only %s: what these show is written on the record of a rehearsal: leave out --live", strings.Join(f.only, ","))
	}
	return some, nil
}

func (f *selftestFlags) run(ctx context.Context, io streams, cases []selftest.Case) error {
	var player selftest.Player = selftest.Rehearsed{Seeds: f.seeds}
	mode, told := "rehearsed", func(selftest.Result) {}
	if f.live {
		runs, err := newLiveSelftest(io.Err, f.scale)
		if err != nil {
			return err
		}
		done := 0
		mode, player = "live", runs
		told = func(r selftest.Result) {
			done++
			runs.judged(r)
			fmt.Fprintf(io.Err, "%d of %d: %s, %s: %s\n", done, len(cases), r.Animal, r.Fault, r.Outcome)
		}
		defer runs.close()
	}
	results, err := selftest.Run(ctx, cases, player, told)
	if ctx.Err() != nil {
		return &exitError{code: verdict.ExitAborted, err: fmt.Errorf("interrupted after %s of %d", figures.Plural(len(results), "case"), len(cases))}
	}
	if err != nil {
		return err
	}
	code := selftest.Verdict(results)
	if *f.output == outputJSON {
		err = writeJSON(io.Out, selftestDoc{SchemaVersion: 1, Mode: mode, Verdict: verdict.ExitName(code), Cases: results})
	} else {
		err = show(io.Out, selftestReport(mode, code, results), doc.Full)
	}
	if err != nil {
		return err
	}
	return status(code)
}

// selftestReport is the table, and how many of its rows are as they must be.
func selftestReport(mode string, code int, results []selftest.Result) *doc.Document {
	table := &doc.Table{Label: "the cases", Columns: doc.Columns("", "lock", "fault", "measure", "seen")}
	right := 0
	for _, r := range results {
		if r.Outcome == selftest.Right {
			right++
		}
		lock, measure := r.Animal, r.Measure
		if r.Control {
			lock, measure = "("+r.Animal+")", "all"
		}
		row := doc.Row{Cells: []doc.Cell{{Text: string(r.Outcome)}, {Text: lock, Code: true}, {Text: r.Fault}, {Text: measure}, {Text: r.Seen}}}
		if r.Expected != "" {
			row.Notes = append(row.Notes, doc.Of("want", r.Expected))
		}
		if r.Evidence != "" {
			row.Notes = append(row.Notes, doc.Of("why", r.Evidence))
		}
		table.Rows = append(table.Rows, row)
	}
	return &doc.Document{
		Word: doc.Word{Text: strings.ToUpper(verdict.ExitName(code)), Before: "SELFTEST"}, Title: mode,
		Tally:    fmt.Sprintf("%d of %s as expected", right, figures.Plural(len(results), "case")),
		Sections: []doc.Section{{Bare: true, Blocks: []doc.Block{{Table: table}}}},
	}
}

// liveSelftest plays cases with real processes. A run's folder stays where its case did not end as it must.
type liveSelftest struct {
	stderr io.Writer
	worker []string // the command of a replica
	scale  float64
	dir    string
	runs   map[string]string // folders, by lock and fault
	keep   map[string]bool   // of these
}

func newLiveSelftest(stderr io.Writer, scale float64) (*liveSelftest, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the own binary: %w", err)
	}
	dir, err := os.MkdirTemp("", "lockdrill-selftest-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the runs: %w", err)
	}
	return &liveSelftest{stderr: stderr, worker: []string{self, "worker"}, scale: scale, dir: dir, runs: map[string]string{}, keep: map[string]bool{}}, nil
}

// Play implements selftest.Player.
func (l *liveSelftest) Play(ctx context.Context, c *selftest.Case, e *experiments.Experiment) ([]*verdict.Judgement, error) {
	c.Live(e, l.worker, l.scale)
	if err := drill.Authorize(ctx, e, drill.Consent{}); err != nil {
		return nil, err
	}
	of := c.Name() + " " + c.Scene.Name
	dir, again := l.runs[of]
	if again {
		_ = os.RemoveAll(dir)
	} else {
		dir = filepath.Join(l.dir, fmt.Sprintf("%d-%s", len(l.runs)+1, c.Name()))
		l.runs[of] = dir
	}
	_, r, err := storyFlags{quiet: true}.drill(ctx, l.stderr, drill.Options{Experiment: e, Seed: 1, Out: dir}, func(string) {})
	if refused := new(drill.Error); errors.As(err, &refused) && ctx.Err() == nil {
		return nil, &selftest.NotPlayed{Why: refused.Error()}
	}
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if r.Judgement.ExitCode == verdict.ExitDirty {
		l.keep[dir] = true
		return nil, &exitError{code: verdict.ExitDirty, err: fmt.Errorf("%s: not everything was undone: the self-test goes no further", dir)}
	}
	return []*verdict.Judgement{r.Judgement}, nil
}

// judged keeps the folder of a case that did not end as it must.
func (l *liveSelftest) judged(r selftest.Result) {
	if r.Outcome == selftest.Right {
		return
	}
	said, dir := fmt.Sprintf("%s: %s", r.Animal, r.Seen), l.runs[r.Animal+" "+r.Fault]
	if _, err := os.Stat(dir); err == nil {
		l.keep[dir] = true
		said += ": see " + dir
	}
	fmt.Fprintln(l.stderr, said)
}

// close removes the folders that nobody needs to look at.
func (l *liveSelftest) close() {
	for _, dir := range l.runs {
		if !l.keep[dir] {
			_ = os.RemoveAll(dir)
		}
	}
	_ = os.Remove(l.dir) // which stays where it is not empty
}
