package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/runs"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// labels are those of --label, one or more.
type labels struct{ history.Labels }

func (l labels) Set(s string) error { return l.Add(s) }
func (l labels) Type() string       { return "KEY=VALUE" }

func labelsFlag(flags *pflag.FlagSet, what string) labels {
	l := labels{history.Labels{}}
	flags.Var(l, "label", what)
	return l
}

// within reports whether a run has all of the labels.
func (l labels) within(run history.Labels) bool {
	for k, v := range l.Labels {
		if run[k] != v {
			return false
		}
	}
	return true
}

// selection says which of the runs in folders are meant.
type selection struct {
	labels     labels
	experiment string
	start      string // the name of a pool
}

func (s *selection) flags(flags *pflag.FlagSet) {
	s.labels = labelsFlag(flags, "only runs with this label, as run --label gave it; may be given more than once")
	flags.StringVar(&s.experiment, "experiment", "", "only runs of the experiment of this name")
}

func (s *selection) takes(o *compare.Observed) bool {
	return s.labels.within(o.Labels) && (s.experiment == "" || s.experiment == o.Experiment)
}

func newHistoryCmd(io streams) *cobra.Command {
	var of selection
	var start string
	var pool bool
	var g gated
	cmd := &cobra.Command{
		Use:   "history [DIR...]",
		Short: "Show what runs have said over weeks, or judge them together",
		Long: "history lists the runs in folders of runs (default runs), by experiment and start: their verdicts, their labels, what changed\n" +
			"from one to the next, and how the runs with one set of labels compare with those before. It reads each run once and keeps what\n" +
			"it said in an index beside the runs (" + runs.File + "). You may delete the index at any time.\n\n" +
			"Exit status 0: the list was written, whatever the verdicts say.\n\n" +
			"With --pool the runs are judged together: percentiles of takeover and tick gap over all of them. A p95 needs some 72 kills that\n" +
			"keep it; one night rarely gives so many. A row passes only if it was settled before the runs which of them belong together: by\n" +
			"their label, or by a start that --start wrote down. DIR may then be the folder of a run as well. Exit status: that of the verdict.",
		Example: "  lockdrill run p95-until-answered --label release=1.4\n  lockdrill history runs\n  lockdrill history runs -f html -o history.html\n  lockdrill history --pool --label release=1.4",
	}
	format := documentFlags(cmd, io)
	of.flags(cmd.Flags())
	cmd.Flags().BoolVar(&pool, "pool", false, "judge the runs together")
	cmd.Flags().StringVar(&of.start, "since", "", "--pool: only runs since the start that --start NAME wrote down")
	cmd.Flags().StringVar(&start, "start", "", "write down that a pool of this name begins now: --pool --since NAME takes the runs from here on")
	g.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = []string{runsFolder}
		}
		return g.run(cmd, io.Err, func() (int, error) {
			switch {
			case pool && start != "":
				return 0, usagef("lockdrill history: --start notes where a pool begins, and --pool judges one: give one of the two")
			case !pool && (g != gated{} || of.start != ""):
				return 0, usagef("lockdrill history: --since, --result-file and --on-inconclusive go with --pool")
			case pool:
				return judgePool(io, args, of, *format)
			case start != "":
				return 0, noteStarts(io, args, start)
			}
			return 0, writeArchive(cmd.Context(), io, args, of, *format)
		})
	}
	return cmd
}

func noteStarts(io streams, dirs []string, name string) error {
	for _, dir := range dirs {
		if err := runs.NoteStart(dir, name, time.Now()); err != nil {
			return usagef("%w", err)
		}
		fmt.Fprintf(io.Out, "%s: pool %s begins now; lockdrill history --pool %s --since %s judges the runs from here on together\n", dir, name, dir, name)
	}
	return nil
}

// goesOn is said of a run that has no end yet.
const goesOn = "it goes on, or was cut off less than a minute ago"

// archived reads the runs of the folders, from the index where that knows them.
func archived(ctx context.Context, io streams, dirs []string, of selection) (seen []*compare.Observed, unread []compare.UnreadRun, err error) {
	reader := indexReader(func(_ context.Context, dir string) (*compare.Observed, error) { return observe(io, dir) })
	var done, all int
	stop := sayEvery(io.Err, func() string { return fmt.Sprintf("read %d of %s", done, figures.Plural(all, "run")) })
	defer stop()
	reader.Progress = func(d, a int) { done, all = d, a }
	for _, dir := range dirs {
		if !isDir(dir) {
			return nil, nil, usagef("%s: no such folder: name the folder of your runs, or make a run: lockdrill run first-drill", dir)
		}
		index, err := runs.Read(ctx, dir, reader, func(string) {}) // without an index the next reading takes longer, and nothing else is lost
		if err != nil {
			return nil, nil, usagef("%s: read: %w", dir, reason(err))
		}
		for _, r := range slices.Backward(index.Runs(runs.Query{})) {
			folder := filepath.Join(dir, r.Folder)
			if r.State != runs.Judged {
				unread = append(unread, compare.UnreadRun{Folder: folder, Why: cmp.Or(r.Why, goesOn)})
				continue
			}
			o, err := index.Observed(r)
			if err != nil {
				return nil, nil, err
			}
			if o.Run.Folder = folder; of.takes(o) {
				seen = append(seen, o)
			}
		}
	}
	return seen, unread, nil
}

// indexReader reads and judges runs for the index of their folder.
func indexReader(observe func(context.Context, string) (*compare.Observed, error)) runs.Reader {
	return runs.Reader{Experiment: experimentFile, History: historyFile, Tool: "lockdrill " + version(), Observe: observe}
}

// observe judges the run in a folder anew.
func observe(io streams, dir string) (*compare.Observed, error) {
	facts, sources, err := readFacts(io.Err, dir)
	if err != nil {
		return nil, err
	}
	o := compare.Observe(facts, fromHere(dir))
	o.Bytes = sources.History
	return o, nil
}

func writeArchive(ctx context.Context, io streams, dirs []string, of selection, format output) error {
	seen, all, err := archived(ctx, io, dirs, of)
	if err != nil {
		return err
	}
	a := compare.ArchiveOf(seen, compare.CompareOptions{Alpha: compareAlpha, Tolerance: compareTolerance})
	a.Unread = append(a.Unread, all...)
	base := "."
	if to, ok := io.Out.(*sink); ok {
		base = filepath.Dir(to.path)
	}
	return present(io, format, a, reports.Archive(a, func(folder string) string {
		path := filepath.Join(folder, fullReport())
		if rel, err := filepath.Rel(absolute(base), absolute(path)); err == nil {
			path = rel
		}
		return filepath.ToSlash(path)
	}), doc.Brief, doc.Short)
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// poolOf judges the runs of folders together. It reads each history anew: a gate rests on no index.
func poolOf(io streams, args []string, of selection) (*compare.Pooled, error) {
	var dirs []string
	byHand := false
	for _, arg := range args {
		within, err := runFolders(arg)
		if err != nil {
			return nil, err
		}
		byHand = byHand || isRunFolder(runFolder(arg))
		dirs = append(dirs, within...)
	}
	from, pool := time.Time{}, compare.PoolOptions{CompareOptions: compare.CompareOptions{Alpha: compareAlpha, Tolerance: compareTolerance}}
	if of.start != "" {
		var err error
		if from, err = runs.StartOf(runFolder(args[0]), of.start); err != nil || len(args) > 1 {
			return nil, usagef("--since %s goes with one folder of runs, in which lockdrill history --start %[1]s has written it down: %w", of.start, err)
		}
		pool.Start = "a start at or after " + from.Format(time.RFC3339) + ", which was written down then as " + of.start
	}
	if len(of.labels.Labels) > 0 {
		pool.Start = strings.TrimSuffix("label "+of.labels.String()+" and "+pool.Start, " and ")
	}
	if byHand {
		pool.Start = ""
	}
	var pooled []*compare.Observed
	names := map[string]bool{}
	for _, dir := range dirs {
		o, err := observe(io, dir)
		if err != nil { // it may be one of the pool
			return nil, err
		}
		if !of.takes(o) || o.Run.Started < from.UTC().Format(time.RFC3339) && !from.IsZero() {
			continue
		}
		pooled, names[o.Experiment] = append(pooled, o), true
	}
	switch {
	case len(pooled) == 0:
		return nil, usagef("no run in %s is meant: see lockdrill history", strings.Join(args, ", "))
	case len(names) > 1:
		var all []string
		for name := range names {
			all = append(all, name)
		}
		slices.Sort(all)
		return nil, usagef("the runs are of several experiments: choose one with --experiment: %s", strings.Join(all, ", "))
	}
	return compare.Pool(pooled, pool), nil
}

// judgePool is history --pool.
func judgePool(io streams, args []string, of selection, format output) (int, error) {
	p, err := poolOf(io, args, of)
	if err != nil {
		return 0, err
	}
	return p.ExitCode, unlessUnread(present(io, format, p, reports.Pool(p), doc.Full, doc.Full))
}
