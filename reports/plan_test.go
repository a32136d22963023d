package reports

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
)

// TestPlan holds the plans of two experiments against what they should say.
func TestPlan(t *testing.T) {
	for name, file := range map[string]string{
		"faults":      "../experiments/testdata/faults.yaml",
		"first-drill": "../scenarios/first-drill.yaml",
	} {
		t.Run(name, func(t *testing.T) {
			e, err := experiments.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			plan := forecast.PlanOf(e)
			plan.Guards = []forecast.PlannedGuard{{Name: "calendar", Says: "always open"}, {Name: "confirm", Refuses: true, Says: "it needs --confirm"}}
			plan.Timeline[0].Now = []string{"nobody holds the key"}
			var got bytes.Buffer
			if err := Plan(&got, plan, TerminalOptions{}); err != nil {
				t.Fatal(err)
			}
			golden(t, "plan-"+name+".txt", got.String())
			if strings.Contains(got.String(), "PASS") {
				t.Error("a plan says PASS")
			}
		})
	}
}
