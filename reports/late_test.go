package reports

import (
	"io"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// A late machine is said beside every figure that it may have made, in every format, and for the whole run.
func TestALateMachineIsSaidBesideItsFigures(t *testing.T) {
	r := recorded(t, "fail")
	j := r.Judgement
	j.SLOs[0].Lateness, j.Takeovers[0].Lateness = 1.5, 1.25
	j.Machine = &verdict.LateMachine{Stretches: 41, Late: 2.5, Worst: 0.28, Judges: true}
	const row, whole = "a late machine may account for 1.5s", "this machine was late 41 times, by 2.5s in all and 280ms at worst"
	terminal := func(w io.Writer, r Run) error { return Terminal(w, r.Judgement, Options{Width: 4000, Verbose: true}) }
	for name, f := range map[string]struct {
		write func(io.Writer, Run) error
		says  []string
	}{
		"terminal": {terminal, []string{row, "a late machine may account for 1.25s of one of them", whole}},
		"page":     {HTML, []string{row, ", a late machine may account for 1.25s<", whole}},
		"markdown": {markdownOf, []string{row, "a late machine may account for 1.25s"}},
		"junit":    {JUnit, []string{row}},
		"csv":      {TakeoversCSV, []string{",1.25,0\n"}},
		"slos-csv": {SLOsCSV, []string{",1.5\n"}},
	} {
		text := written(t, f.write, r)
		for _, want := range f.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
	j.Machine.Judges = false
	if text := written(t, terminal, r); !strings.Contains(text, "no time is taken off for it, because the replicas did not run on it") {
		t.Error("the terminal does not say that the lateness of another machine judges nothing")
	}
}
