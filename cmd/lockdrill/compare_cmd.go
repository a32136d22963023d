package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/reports"
	"github.com/lockdrill/lockdrill/reports/doc"

	"github.com/spf13/cobra"
)

type compareFlags struct {
	compare.CompareOptions
	tolerance string
	output    *output
}

// What compare takes where nobody says otherwise, and what a report's comparison always takes.
const (
	compareAlpha     = 0.05
	compareTolerance = 0.1
)

func newCompareCmd(io streams) *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare BASE HEAD",
		Short: "Compare runs with a baseline",
		Long: "compare says whether the runs of HEAD are worse than those of BASE. A rank test compares the figures of each SLO; counts of\n" +
			"wrong results are compared without statistics. BASE and HEAD are each the folder of a run, a folder of such folders, or several\n" +
			"of both with commas between; a name may be one in runs/. The runs are judged anew, and nothing is written.\n\n" +
			"Exit status: 0 no regression; 10 regressed; 11 cannot say (too few runs, or runs that gave no answer themselves);\n" +
			"13 refused, because the environments differ.",
		Example: "  lockdrill compare runs-1.3 runs-1.4\n  lockdrill compare runs-1.3 runs-1.4 --slo job/takeover",
		Args:    cobra.ExactArgs(2),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.SLOs, "slo", nil, "compare these rows only: MEASURE, LOCK or LOCK/MEASURE")
	flags.Float64Var(&f.Alpha, "alpha", compareAlpha, "chance, at most, that any row is called worse or better where nothing has changed")
	flags.StringVar(&f.tolerance, "tolerance", fmt.Sprintf("%g%%", 100*compareTolerance), "change, as a share of the base's median, that does not count")
	flags.StringSliceVar(&f.Allow, "allow-different", nil, "settings in which the runs may differ, each with all below it (tool, system.locks.job), or all")
	f.output = documentFlags(cmd, io)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		base, head, err := observeSides(io.Err, args[0], args[1])
		if err != nil {
			return err
		}
		c, err := compare.Compare(base, head, f.CompareOptions)
		if err != nil {
			return usagef("lockdrill compare: --slo: %w", err)
		}
		if err := present(io, *f.output, c, reports.Comparison(c), doc.Full, doc.Short); err != nil {
			return err
		}
		return status(c.ExitCode)
	}
	return cmd
}

func (f *compareFlags) check() (err error) {
	if f.Tolerance, err = share(f.tolerance); err != nil {
		return usagef("--tolerance %s: want a share such as 10%% or 0.1", f.tolerance)
	}
	switch {
	case !(f.Alpha > 0 && f.Alpha < 0.5):
		return usagef("--alpha %g: want a chance above 0 and below 0.5", f.Alpha)
	}
	return nil
}

// share reads 10% or 0.1.
func share(s string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v >= 0) || v > 1e6 {
		return 0, errors.New("no share")
	}
	if percent {
		v /= 100
	}
	return v, nil
}

// besideBaseline compares the run in dir with earlier ones for a report.
func besideBaseline(w io.Writer, baseline string, allow []string, dir string) (*compare.Comparison, error) {
	base, head, err := observeSides(w, baseline, dir)
	if err != nil {
		return nil, err
	}
	return compare.Compare(base, head, compare.CompareOptions{Alpha: compareAlpha, Tolerance: compareTolerance, Allow: allow})
}

// observeSides reads the runs of both sides. A run that is there twice, on one side or on both, is a usage error: it would count for
// two, or be held against itself.
func observeSides(w io.Writer, baseArg, headArg string) (base, head []*compare.Observed, err error) {
	seen := map[verdict.Sources]string{}
	for _, side := range []struct {
		arg  string
		runs *[]*compare.Observed
	}{{baseArg, &base}, {headArg, &head}} {
		dirs, err := runFolders(side.arg)
		if err != nil {
			return nil, nil, err
		}
		for _, dir := range dirs {
			facts, of, err := readFacts(w, dir)
			if err != nil {
				return nil, nil, err
			}
			if other, twice := seen[of]; twice {
				return nil, nil, usagef("%s and %s are the same run, %s", other, fromHere(dir), facts.Header().Run)
			}
			seen[of] = fromHere(dir)
			o := compare.Observe(facts, fromHere(dir))
			o.Bytes = of.History
			*side.runs = append(*side.runs, o)
		}
	}
	return base, head, nil
}

// runFolders lists the folders of runs that BASE or HEAD names.
func runFolders(arg string) ([]string, error) {
	names := []string{arg}
	if !isDir(runFolder(arg)) { // a folder may have a comma in its name
		names = strings.Split(arg, ",")
	}
	var all []string
	for _, name := range names {
		if name == "" {
			return nil, usagef("lockdrill compare: %q names a run without a name", arg)
		}
		dir := runFolder(name)
		if !isDir(dir) || isRunFolder(dir) {
			all = append(all, dir) // openStored says what is wrong with it
			continue
		}
		within, err := runsWithin(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, within...)
	}
	return all, nil
}

// runsWithin lists the folders of runs in dir. A link, such as runs/latest, leads to one that is there by its own name.
func runsWithin(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, usagef("%s: read: %w", dir, reason(err))
	}
	var runs []string
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); e.IsDir() && isRunFolder(path) {
			runs = append(runs, path)
		}
	}
	if len(runs) == 0 {
		return nil, usagef("%s: neither the folder of a run nor one that holds such folders: there is no %s and no %s", dir, experimentFile, historyFile)
	}
	return runs, nil
}

// isRunFolder reports whether dir means to be the folder of a run: one that lacks the other file is a damaged one.
func isRunFolder(dir string) bool {
	for _, name := range []string{experimentFile, historyFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}
