package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/scenarios"
)

// listDoc is the document of `list -o json`.
type listDoc struct {
	SchemaVersion int           `json:"schemaVersion"`
	Scenarios     []listedDrill `json:"scenarios"`
}

type listedDrill struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Summary string `json:"summary"`
	Expect  int    `json:"expect"`          // the exit status that a run of it ends with
	Needs   string `json:"needs,omitempty"` // beyond this machine
}

func newListCmd(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "The shipped scenarios", Args: cobra.NoArgs}
	format := outputFlag(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error {
		doc := listDoc{SchemaVersion: 1, Scenarios: []listedDrill{}}
		for _, s := range scenarios.List() {
			doc.Scenarios = append(doc.Scenarios, listedDrill(s))
		}
		if *format == outputJSON {
			return writeJSON(io.Out, doc)
		}
		w := tabwriter.NewWriter(io.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tENDS WITH\tWHAT IT SHOWS")
		for _, s := range doc.Scenarios {
			fmt.Fprintf(w, "%s\t%d %s\t%s\n", s.Name, s.Expect, verdict.ExitName(s.Expect), s.Summary)
			if s.Needs != "" {
				fmt.Fprintf(w, "\t\tneeds %s\n", s.Needs)
			}
		}
		return w.Flush()
	}
	return cmd
}
