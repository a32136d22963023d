package reports

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/golden"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// TestPlan holds the plans of two experiments against what they should say.
func TestPlan(t *testing.T) {
	var book golden.Book
	for _, file := range []string{"scenarios/first-drill.yaml", "experiments/testdata/faults.yaml"} {
		e, err := experiments.Load("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		plan := forecast.PlanOf(e)
		plan.Guards = []forecast.PlannedGuard{{Name: "calendar", Says: "always open"}, {Name: "confirm", Refuses: true, Says: "it needs --confirm"}}
		plan.Timeline[0].Now = []string{"nobody holds the key"}
		got := doc.Text(Plan(plan), doc.Full, doc.Look{})
		book.Add(file, got)
		if strings.Contains(got, "PASS") {
			t.Errorf("the plan of %s says PASS", file)
		}
	}
	isGolden(t, "plans.txt", book.String())
}

// What could be promised is told in the words of the verdict's rows.
func TestAPlanSpellsMeasuresAsAVerdictDoes(t *testing.T) {
	block := plannedTold(forecast.PlannedTold{Lock: "job", By: []experiments.Answered{{By: "effects", Measures: []string{"re_executed", "not_owned.renew"}}}})
	if got := block.List[0]; got != "effects: re-executed, not owned renew" {
		t.Error(got)
	}
}
