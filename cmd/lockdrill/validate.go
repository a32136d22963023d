package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// validateDoc is the document of `validate -o json`.
type validateDoc struct {
	SchemaVersion int             `json:"schemaVersion"`
	Files         []validatedFile `json:"files"`
}

type validatedFile struct {
	File     string        `json:"file"`
	OK       bool          `json:"ok"`
	Name     string        `json:"name,omitempty"` // of the experiment, where the file is right
	Problems []fileProblem `json:"problems"`
	Warnings []lintWarning `json:"warnings"` // budget lints; with --strict each is a reason not to be ok
}

// fileProblem is one mistake; Line and Column count from 1, and are 0 where the file could not be read at all.
type fileProblem struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

func newValidateCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate FILE|NAME...",
		Short: "Check experiment files without touching anything",
		Args:  cobra.MinimumNArgs(1),
	}
	format := outputFlag(cmd.Flags())
	strict := cmd.Flags().Bool("strict", false, "budget lints are errors (exit status 2), not warnings")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		doc, code := validateDoc{SchemaVersion: 1}, verdict.ExitPass
		for _, arg := range args {
			e, _, err := loadExperiment(arg)
			f := validated(arg, e, err)
			f.OK = f.OK && (!*strict || len(f.Warnings) == 0)
			doc.Files = append(doc.Files, f)
			if !f.OK {
				code = verdict.ExitUsage
			}
			switch {
			case err != nil:
				fmt.Fprintln(io.Err, err)
				annotate(io.Err, err)
			case *format == outputText:
				printLints(io.Err, e)
				if f.OK {
					fmt.Fprintf(io.Out, "%s: ok: %s\n", arg, contents(e))
				}
			}
		}
		if *format == outputJSON {
			if err := writeJSON(io.Out, doc); err != nil {
				return err
			}
		}
		return status(code)
	}
	return cmd
}

func validated(arg string, e *experiments.Experiment, err error) validatedFile {
	f := validatedFile{File: arg, OK: err == nil, Problems: []fileProblem{}, Warnings: []lintWarning{}}
	var problems experiments.Problems
	switch {
	case err == nil:
		f.Name, f.Warnings = e.Name, lintWarnings(e)
	case errors.As(err, &problems):
		for _, p := range problems {
			f.Problems = append(f.Problems, fileProblem{p.Line, p.Column, p.Message})
		}
	default:
		f.Problems = append(f.Problems, fileProblem{Message: err.Error()})
	}
	return f
}

// contents is what a good file declares.
func contents(e *experiments.Experiment) string {
	shots := 0
	for i := range e.Faults {
		shots += e.Faults[i].Repeat.Count
	}
	text := fmt.Sprintf("%s: %s, %s with %s, %s, time scale %v", e.Name, figures.Plural(len(e.System.Locks), "lock"), figures.Plural(len(e.Faults), "fault"),
		figures.Plural(shots, "shot"), figures.Plural(len(e.SLOs), "SLO"), e.TimeScale)
	switch {
	case e.Kubernetes != nil:
		text += "; pods: run asks for --confirm " + e.Name
	case e.Observed():
		text += "; processes of somebody's own: run asks for --confirm " + e.Name
	case e.Redis.Mode == experiments.RedisExternal:
		text += "; redis.mode external: run asks for --confirm " + e.Name
	}
	return text
}

// reason is an error of the file system without the path, which the message already starts with.
func reason(err error) error {
	if pe := new(os.PathError); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
