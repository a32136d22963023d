package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/selftest"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// selftestSeeds is how often each case is rehearsed: different jobs are struck at different moments.
const selftestSeeds = 3

// selftestDoc is the document of `selftest -f json`.
type selftestDoc struct {
	SchemaVersion int               `json:"schemaVersion"`
	Mode          string            `json:"mode"` // rehearsed
	Verdict       string            `json:"verdict"`
	Cases         []selftest.Result `json:"cases"`
}

func newSelftestCmd(io streams) *cobra.Command {
	var only []string
	var seeds int64
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Drill locks that are wrong on purpose, and see that each is detected",
		Long: "selftest drills locks that are wrong on purpose, each with the fault that reveals it, and the shipped classes with\n" +
			"every fault. It runs in virtual time, and touches nothing.\n\n" +
			"Exit status 0: the measure named for each wrong lock detected it, and no right one was accused. 10: a wrong lock was missed,\n" +
			"or a right one accused. 11: a fault did not take place, so its case shows nothing.",
		Example: "  lockdrill selftest\n  lockdrill selftest --only late-timers",
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&only, "only", nil, "only the cases of these animals, or of these shipped classes")
	flags.Int64Var(&seeds, "seeds", selftestSeeds, "drills of each case")
	format := formFlags(cmd, io)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if seeds < 1 || seeds > mostSeeds {
			return usagef("--seeds %d: want 1 to %d", seeds, mostSeeds)
		}
		cases, err := selftestCases(only)
		if err != nil {
			return err
		}
		results, err := selftest.Run(cmd.Context(), cases, selftest.Rehearsed{Seeds: seeds}, nil)
		if cmd.Context().Err() != nil {
			return &exitError{code: verdict.ExitAborted, err: fmt.Errorf("interrupted after %s of %d", figures.Plural(len(results), "case"), len(cases))}
		}
		if err != nil {
			return err
		}
		code := selftest.Verdict(results)
		if *format == outputJSON {
			err = writeJSON(io.Out, selftestDoc{SchemaVersion: 1, Mode: "rehearsed", Verdict: verdict.ExitName(code), Cases: results})
		} else {
			err = show(io.Out, selftestReport(code, results), doc.Full)
		}
		return errors.Join(err, status(code))
	}
	return cmd
}

// selftestCases are those of the animals and classes that are named, or all.
func selftestCases(only []string) (some []selftest.Case, err error) {
	var names []string
	for _, c := range selftest.Matrix() {
		if name := c.Name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(only) == 0 || slices.Contains(only, c.Name()) {
			some = append(some, c)
		}
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, usagef("--only %s: no such animal or class; there are %s", name, strings.Join(names, ", "))
		}
	}
	return some, nil
}

// selftestReport is the table, and how many of its rows are as they must be.
func selftestReport(code int, results []selftest.Result) *doc.Document {
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
		Word: doc.Word{Text: strings.ToUpper(verdict.ExitName(code)), Before: "SELFTEST"}, Title: "rehearsed",
		Tally:    fmt.Sprintf("%d of %s as expected", right, figures.Plural(len(results), "case")),
		Sections: []doc.Section{{Bare: true, Blocks: []doc.Block{{Table: table}}}},
	}
}
