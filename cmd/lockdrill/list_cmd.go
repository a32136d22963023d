package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/scenarios"
)

// listDoc is the document of `list -f json`.
type listDoc struct {
	SchemaVersion int           `json:"schemaVersion"`
	Scenarios     []listedDrill `json:"scenarios"`
}

type listedDrill struct {
	Name    string  `json:"name"`
	Title   string  `json:"title"`
	Summary string  `json:"summary"`
	Expect  int     `json:"expect"`          // the exit status that a run of it ends with
	Needs   string  `json:"needs,omitempty"` // beyond this machine
	Group   string  `json:"group"`
	Seconds float64 `json:"seconds"` // about, from the steady state on
}

// mostColumns is how wide a list is at most.
const mostColumns = 100

func newListCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the shipped scenarios",
		Long: "list shows the shipped scenarios by groups, with the time that a run of each takes. All keep what they promise and pass, but for\n" +
			"those that say how they end.",
		Example: "  lockdrill list\n  lockdrill list -f json",
		Args:    cobra.NoArgs,
	}
	format := formFlags(cmd, io)
	cmd.RunE = func(*cobra.Command, []string) error {
		doc := listDoc{SchemaVersion: 1, Scenarios: []listedDrill{}}
		for _, s := range scenarios.List() {
			e, _, err := parseExperiment(s.Name)
			if err != nil {
				return err
			}
			doc.Scenarios = append(doc.Scenarios, listedDrill{s.Name, s.Title, s.Summary, s.Expect, s.Needs, s.Group, forecast.PlanOf(e).Duration.Expected})
		}
		if *format == outputJSON {
			return writeJSON(io.Out, doc)
		}
		width, _ := terminal(io.Out)
		return writeLines(io.Out, strings.Join(doc.lines(min(width, mostColumns)), "\n"))
	}
	return cmd
}

// lines are the list by groups, at most so wide.
func (d *listDoc) lines(width int) (lines []string) {
	all := slices.Clone(d.Scenarios)
	slices.SortFunc(all, func(a, b listedDrill) int { return scenarios.Order(a.Name) - scenarios.Order(b.Name) })
	names := 0
	for _, s := range all {
		names = max(names, len(s.Name))
	}
	entry := func(name, took, text string) {
		head := fmt.Sprintf("  %-*s  %6s  ", names, name, took)
		for i, line := range wrapped(text, max(20, width-len(head))) {
			if i > 0 {
				head = strings.Repeat(" ", len(head))
			}
			lines = append(lines, head+line)
		}
	}
	for i, s := range all {
		if i == 0 || all[i-1].Group != s.Group {
			lines = append(lines, s.Group)
		}
		text := s.Summary
		if s.Expect != verdict.ExitPass {
			text += fmt.Sprintf(" Ends with %d (%s).", s.Expect, verdict.ExitName(s.Expect))
		}
		if s.Needs != "" {
			text += " Needs " + s.Needs + "."
		}
		entry(s.Name, figures.Spell(time.Duration(s.Seconds+0.5)*time.Second), text)
	}
	lines = append(lines, "Game days")
	for _, name := range scenarios.GameDays() {
		text, _ := scenarios.GameDay(name)
		if sheet, err := experiments.ParseGameDay(name, text, nil); err == nil {
			entry(name, "", sheet.Hypothesis)
		}
	}
	return append(append(lines, ""), wrapped("Run one: lockdrill run NAME. Start one of your own from it: lockdrill init FILE --from NAME.", width)...)
}

// tell writes a text as wide as a terminal is; what is too long goes on below, indented. Elsewhere it is a line, for those who search it.
func tell(w io.Writer, text string) {
	if width, ok := terminal(w); ok {
		text = strings.Join(wrapped(text, min(width, mostColumns)-2), "\n  ")
	}
	fmt.Fprintln(w, text)
}

// wrapped breaks a text at spaces.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
