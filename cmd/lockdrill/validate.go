package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// validateDoc is the document of `validate -f json`.
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
		Long: "validate prints every problem of each file at once, with its line, and warns of timings that do not add up.\n" +
			"Of a folder it checks each experiment file in it. Exit status 2: a file is wrong.\n\n" +
			"--schema prints the JSON Schema (draft 2020-12) of the experiment files that this binary reads. With it an editor completes and\n" +
			"checks your files, and shows what each field is for. Put it beside your experiments, and begin each of them with the line\n\n  " + experiments.Modeline +
			"\n--schema=gameday prints that of the sheets of a game day.",
		Example: "  lockdrill validate first-drill\n  lockdrill validate --strict first-drill\n  lockdrill validate --schema -o " + experiments.SchemaFile,
		Args:    cobra.ArbitraryArgs,
	}
	format := formFlags(cmd, io)
	values := setFlag(cmd.Flags())
	cmd.ValidArgsFunction = completed(scenarioNames)
	schema := cmd.Flags().String("schema", "", "print the JSON Schema of experiment or gameday, and check nothing")
	cmd.Flags().Lookup("schema").NoOptDefVal = "experiment"
	strict := cmd.Flags().Bool("strict", false, "budget lints are errors (exit status 2), not warnings")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case cmd.Flags().Changed("schema") && len(args) > 0:
			return usagef("lockdrill validate: --schema checks no file; another schema than that of experiments: --schema=gameday")
		case cmd.Flags().Changed("schema"):
			return printSchema(io, *schema)
		case len(args) == 0:
			return usagef("lockdrill validate: no argument given, usage: %s; see lockdrill validate --help", cmd.UseLine())
		}
		args, err := inFolders(io.Err, args)
		if err != nil {
			return err
		}
		doc, code := validateDoc{SchemaVersion: 1}, verdict.ExitPass
		for _, arg := range args {
			e, _, err := loadExperiment(arg, *values...)
			var busy error
			if err == nil {
				var never error
				if never, busy = drill.CheckScale(e); never != nil {
					err = usagef("%s: this machine is too slow: %w", arg, never)
				}
			}
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
				if unbuilt := drill.Built(e); unbuilt != nil { // the file may be right all the same: another build runs it
					fmt.Fprintf(io.Err, "warning: run and plan would refuse: %v\n", unbuilt)
				}
				if busy != nil {
					fmt.Fprintf(io.Err, "warning: this machine is too busy now, and run would refuse: %v\n", busy)
				}
				if f.OK {
					fmt.Fprintf(io.Out, "%s: ok: %s\n", arg, contents(e))
					for _, line := range assumed(e) {
						fmt.Fprintln(io.Out, "  "+line)
					}
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
	shots, promises, atMost := 0, 0, ""
	for i := range e.Faults {
		shots += e.Faults[i].Repeat.Count
		if e.Faults[i].Repeat.Answered {
			atMost = "at most "
		}
	}
	for i := range e.SLOs { // a run has a row for each of its limits
		promises += len(e.SLOs[i].Limits())
	}
	text := fmt.Sprintf("%s: %s, %s with %s%s, %s, time scale %v", e.Name, figures.Plural(len(e.System.Locks), "lock"), figures.Plural(len(e.Faults), "fault"),
		atMost, figures.Plural(shots, "shot"), figures.Plural(promises, "SLO"), e.TimeScale)
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

// assumed says which values of each lock's policy the file leaves out, and what stands there instead.
func assumed(e *experiments.Experiment) (lines []string) {
	for _, l := range e.System.Locks {
		if len(l.Assumed) > 0 {
			lines = append(lines, fmt.Sprintf("lock %s: assumed %s", l.Name, strings.Join(l.Assumed, ", ")))
		}
	}
	return lines
}

// lintWarning is a budget lint that does not hold, with the place of its promise, or of its lock.
type lintWarning struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	forecast.Lint
}

func (w lintWarning) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s: %s. %s", w.File, w.Line, w.Column, w.Rule, w.Of(), w.Text, w.Means)
}

// lintWarnings are the budget lints of e that do not hold, in the numbers of its file. Never nil.
func lintWarnings(e *experiments.Experiment) []lintWarning {
	out := []lintWarning{}
	for _, l := range forecast.Lints(e, 0) {
		if !l.OK {
			p := e.Rows()[0].SLO.Place // of the run's lints, where there is no lock
			if len(e.System.Locks) > 0 {
				p = e.System.Locks[0].Place // nearest to what they are about
			}
			if lock := e.Lock(l.Lock); lock != nil && lock.Place.Line > 0 {
				p = lock.Place
			}
			if l.SLO != nil {
				p = l.SLO.Place
			}
			out = append(out, lintWarning{p.File, p.Line, p.Column, l})
		}
	}
	return out
}

// printLints prints the warnings of e, one a line.
func printLints(w io.Writer, e *experiments.Experiment) {
	for _, warning := range lintWarnings(e) {
		fmt.Fprintln(w, "warning:", warning)
	}
}

// printSchema is validate --schema: the JSON Schema of a kind of file.
func printSchema(io streams, kind string) error {
	of := map[string]func() ([]byte, error){"experiment": experiments.Schema, "gameday": experiments.GameDaySchema}[kind]
	switch {
	case kind == "schedule":
		return usagef("lockdrill validate --schema=schedule: %s", drillsGo)
	case of == nil:
		return usagef("lockdrill validate: --schema=%s: there is none; there are those of experiment and gameday", kind)
	}
	data, err := of()
	if err != nil {
		return err
	}
	_, err = io.Out.Write(data)
	return err
}
