package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/selftest"
	"github.com/lockdrill/lockdrill/internal/figures"
)

type selftestFlags struct {
	only     string
	rehearse bool
	seeds    int64
	output   *output
}

// selftestSeeds is how often each case is rehearsed: different jobs are struck at different moments.
const selftestSeeds = 3

// selftestDoc is the document of `selftest -o json`.
type selftestDoc struct {
	SchemaVersion int               `json:"schemaVersion"`
	Mode          string            `json:"mode"` // rehearsed
	Verdict       string            `json:"verdict"`
	Cases         []selftest.Result `json:"cases"`
}

func newSelftestCmd(io streams) *cobra.Command {
	var f selftestFlags
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Drill locks that are wrong on purpose, and see that each is found out",
		Long: "selftest drills a zoo of locks that are wrong on purpose, each with the fault that reveals it, and the shipped classes with\n" +
			"every fault. Exit status 0: each wrong lock was found out by the measure that is named for it, and no right one was accused.\n" +
			"10: one was not, or was. 11: a fault did not take place, so that its case shows nothing.",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.only, "only", "", "only the cases of this animal, or of this shipped class")
	flags.BoolVar(&f.rehearse, "rehearse", false, "in virtual time: seconds, and it touches nothing (the default)")
	flags.Int64Var(&f.seeds, "seeds", selftestSeeds, "rehearsed drills of each case")
	f.output = outputFlag(flags)
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
	if f.only == "" {
		return all, nil
	}
	var some []selftest.Case
	var names []string
	for _, c := range all {
		if name := c.Name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if c.Name() == f.only {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		return nil, usagef("--only %s: no such animal or class; there are %s", f.only, strings.Join(names, ", "))
	}
	return some, nil
}

func (f *selftestFlags) run(ctx context.Context, io streams, cases []selftest.Case) error {
	results, err := selftest.Run(ctx, cases, selftest.Rehearsed{Seeds: f.seeds}, nil)
	if ctx.Err() != nil {
		return &exitError{code: verdict.ExitAborted, err: fmt.Errorf("interrupted after %s of %d", figures.Plural(len(results), "case"), len(cases))}
	}
	if err != nil {
		return err
	}
	code := selftest.Verdict(results)
	if *f.output == outputJSON {
		err = writeJSON(io.Out, selftestDoc{SchemaVersion: 1, Mode: "rehearsed", Verdict: verdict.ExitName(code), Cases: results})
	} else {
		err = writeSelftest(io.Out, results)
	}
	if err != nil {
		return err
	}
	return status(code)
}

// writeSelftest writes the table, and how many of its rows are as they must be.
func writeSelftest(out io.Writer, results []selftest.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tLOCK\tFAULT\tMEASURE\tEXPECTED\tSEEN\tEVIDENCE")
	right := 0
	for _, r := range results {
		if r.Outcome == selftest.Right {
			right++
		}
		lock, measure := r.Animal, r.Measure
		if r.Control {
			lock, measure = "("+r.Animal+")", "all"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Outcome, lock, r.Fault, measure, r.Expected, r.Seen, r.Evidence)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d of %s as expected.\n", right, figures.Plural(len(results), "case"))
	return err
}
