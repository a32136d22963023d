package e2e

import (
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

// alertRow is what a drill asks of an alert. fault "": it is enough that the alert fires at any time, or that it never does.
type alertRow struct {
	fault, alert     string
	within, resolves time.Duration
}

// alertsBesideDrills are those that fire while a shipped drill runs, and go away after its fault.
var alertsBesideDrills = []struct {
	scenario string
	rows     []alertRow
	silent   bool // the rows are of alerts that must not fire
}{
	{scenario: "renewal-burst", rows: []alertRow{
		{"strict-burst", "LockAbandoned", 3 * time.Minute, 8 * time.Minute},
		{"go-on-burst", "LockRenewalBudgetExceeded", 3 * time.Minute, 8 * time.Minute},
		{"go-on-burst", "LockStoppedLate", 5 * time.Minute, 20 * time.Minute},
	}},
	{scenario: "unfenced-duplicates", rows: []alertRow{{"pause-unfenced", "LockStaleWriteApplied", 5 * time.Minute, 20 * time.Minute}}},
	{scenario: "fence-counter-lost", rows: []alertRow{{"flush", "LockFenceRegressed", 2 * time.Minute, 25 * time.Minute}}},
	{scenario: "redis-failover", rows: []alertRow{{"", "LockFenceRegressed", 0, 0}}, silent: true}, // fences of lockdrill's own lock do not go back
	{scenario: "sustained-failures", rows: []alertRow{
		{"renewals-fail", "LockWorkUnowned", 10 * time.Minute, 15 * time.Minute},
		{"renewals-fail", "LockRenewalsFailing", 15 * time.Minute, 15 * time.Minute},
		{"renewals-fail", "LockNotOwnedSustained", 30 * time.Minute, 15 * time.Minute},
		{"releases-fail", "LockReleasesFailing", 15 * time.Minute, 15 * time.Minute},
		{"releases-fail", "LockBusySustained", 20 * time.Minute, 15 * time.Minute},
		{"releases-fail", "LockDebtDelaysWaiters", 20 * time.Minute, 15 * time.Minute},
		{"releases-fail", "LockWaitLong", 40 * time.Minute, 15 * time.Minute},
	}},
}

// alertsAfterDrills are those that fire on what a shipped drill left, and go away when another run has passed.
var alertsAfterDrills = []struct {
	scenario      string
	consent       []string
	fires, silent []string
}{
	{scenario: "first-drill", fires: []string{"LockMetricsMissing"}, silent: []string{"LockDrillLastPassTooOld", "LockDrillSLOViolated", "LockDrillDirty", "LockDrillDuplicateTerminalState"}},
	{scenario: "nobody-home", fires: []string{"LockDrillLastPassTooOld", "LockDrillUnanswered"}, silent: []string{"LockDrillSLOViolated", "LockDrillDirty"}},
	{scenario: "too-tight-slo", fires: []string{"LockDrillSLOViolated"}, silent: []string{"LockDrillDirty", "LockDrillDuplicateTerminalState"}},
	{scenario: "unfenced-duplicates", fires: []string{"LockDrillDuplicateTerminalState"}, silent: []string{"LockDrillDirty"}},
	{scenario: "undo-fails", fires: []string{"LockDrillRefused"}, silent: []string{"LockDrillDirty"}},
	{scenario: "undo-fails", consent: []string{"--environment", "local", "--confirm", "undo-fails"}, fires: []string{"LockDrillDirty"}, silent: []string{"LockDrillDuplicateTerminalState"}},
}

// alertsOfTheWitness are those on what only an application can count, by the drill of the witness in whose file or test they are asked for.
var alertsOfTheWitness = map[string][]string{
	"scenarios/witness/pauses.lockdrill.yaml":  {"LockDuplicateTerminalState"},
	"scenarios/witness/backlog.lockdrill.yaml": {"LockReplaysSustained", "LockBacklogGrows"},
	"scenarios/witness/kills.lockdrill.yaml":   {"LockLeaseRanOut"}, // of a watch beside it
}

// Each alert that any mapping can have exported names a drill, and make alerts sees it fire there.
func TestEveryExportedAlertIsDrilled(t *testing.T) {
	t.Parallel()
	drilled := map[string]bool{}
	for _, d := range alertsBesideDrills {
		for _, r := range d.rows {
			drilled[r.alert+" "+d.scenario] = !d.silent
		}
	}
	for _, d := range alertsAfterDrills {
		for _, a := range d.fires {
			drilled[a+" "+d.scenario] = true
		}
	}
	for drill, alerts := range alertsOfTheWitness {
		for _, a := range alerts {
			drilled[a+" "+drill] = true
		}
	}
	dir := folder(t, "cordum.yaml", "extends: cordum\nsignals: {duplicate_terminal_states: {series: app_total}}\n")
	alerts := map[string]bool{}
	for _, mapping := range []string{"lockcore", "cordum.yaml", "watch"} {
		got := tryIn(t, dir, "export", "alerts", "--recording", "--metrics", mapping)
		var rules struct {
			Groups []struct {
				Rules []struct {
					Alert       string
					Annotations struct{ Drill string }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(got.stdout), &rules); err != nil || got.code != 0 {
			t.Fatalf("%v\n%+v", err, got)
		}
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				if r.Alert == "" {
					continue
				}
				if alerts[r.Alert] = true; !drilled[r.Alert+" "+r.Annotations.Drill] {
					t.Errorf("%s: make alerts does not make it fire by its drill %q: see the tables of this file", r.Alert, r.Annotations.Drill)
				}
			}
		}
	}
	for name := range drilled {
		if alert, _, _ := strings.Cut(name, " "); !alerts[alert] {
			t.Errorf("%s is drilled, and not exported", alert)
		}
	}
}
