package drill

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

func TestAnInterruptedQuestionIsNoRefusal(t *testing.T) {
	e := watchedJobs(t, "127.0.0.1:1", "stream: log")
	status := func(ctx context.Context) (int, string) {
		said := new(Error)
		if err := Authorize(ctx, e, Consent{Environment: "staging", Confirm: []string{"jobs"}}); !errors.As(err, &said) {
			t.Fatalf("%v, want an error with a status", err)
		}
		return said.Status, said.Error()
	}
	if got, text := status(t.Context()); got != verdict.ExitRefused || !strings.Contains(text, "could not be asked") {
		t.Errorf("a store that does not answer: status %d, want %d: %s", got, verdict.ExitRefused, text)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got, text := status(over); got != verdict.ExitAborted {
		t.Errorf("interrupted: status %d, want %d: %s", got, verdict.ExitAborted, text)
	}
}

func TestARunThatLeavesItsWindowEnds(t *testing.T) {
	now := time.Date(2026, 7, 6, 12, 0, 0, 0, time.UTC) // a Monday
	e := &experiments.Experiment{Windows: []experiments.Window{{Days: []string{"mon"}, From: "11:00", To: "12:01", Zone: "UTC"}}}
	if word, why := mayGoOn(e, now); word != "" {
		t.Errorf("inside: %s, %s", word, why)
	}
	if word, why := mayGoOn(e, now.Add(time.Minute)); word != "window" || !strings.Contains(why, "11:00-12:01") {
		t.Errorf("outside: %q, %q", word, why)
	}
}

// What a run could not read refuses its plan as well.
func TestAPlanAsksWhatTheRunAsks(t *testing.T) {
	e, err := experiments.Parse("queries.yaml", []byte(`
apiVersion: lockdrill/v1
kind: Experiment
name: queries
redis: {mode: embedded}
system:
  mode: embedded
  replicas: 2
  locks:
    - {name: leader, profile: cordum/workflow-reconciler, key: "leader"}
probes:
  promql:
    - {name: gave-up, url: "http://127.0.0.1:1", query: abandoned_total, step: 1s}
faults:
  - {id: kill, kill: {holder_of: leader}}
slos:
  - {lock: leader, metric: {name: gave-up, delta: 2}}
`))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Plan(t.Context(), e, Consent{}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if last := plan.Guards[len(plan.Guards)-1]; last.Name != "sources" || !last.Refuses || !strings.Contains(last.Says, "probes.promql gave-up") || !strings.Contains(last.Says, "refused") {
		t.Errorf("%+v", last)
	}
}
