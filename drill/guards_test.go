package drill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/testkit"
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

// A refusal names every guard that is not met, and the words that meet those that words can meet. With them the others are left.
func TestARefusalNamesAllThatIsNotMet(t *testing.T) {
	e, err := experiments.Parse("refused.yaml", []byte(`apiVersion: lockdrill/v1
kind: Experiment
name: jobs
environment: staging
redis: {mode: embedded}
proxy: {mode: external, url: "http://127.0.0.1:1"}
blackouts: [{from: "00:00", to: "00:00", zone: UTC}]
blocked_by: [{file: `+t.TempDir()+`}]
system: {mode: embedded, replicas: 2, locks: [{name: leader, profile: cordum/scheduler-reconciler}]}
faults: [{id: slow, latency: {holder_of: leader, add: 1ms}, for: 1s}]
slos: [{lock: leader, takeover: {max: 95s}}]
`))
	testkit.Must(t, err)
	for _, c := range []struct {
		consent Consent
		guards  string
		flags   []string
	}{
		{Consent{}, "calendar confirm environment blocked_by", []string{"--confirm=jobs", "--environment=staging"}},
		{Consent{Confirm: []string{"jobs"}}, "calendar environment blocked_by", []string{"--environment=staging"}},
		{Consent{Confirm: []string{"jobs"}, Environment: "staging"}, "calendar blocked_by", nil},
		{Consent{Environment: "production"}, "calendar confirm environment blocked_by", []string{"--confirm=jobs"}}, // not to be said otherwise
	} {
		no := new(Refusal)
		if err := Authorize(t.Context(), e, c.consent); !errors.As(err, &no) {
			t.Errorf("%+v: %v", c.consent, err)
			continue
		}
		var names []string
		for _, g := range no.guards {
			names = append(names, g.Name)
			if !strings.Contains(no.Error(), "\n  "+g.Name+": "+g.Says) {
				t.Errorf("%s is not told: %s", g.Name, no)
			}
		}
		if got := strings.Join(names, " "); got != c.guards || !slices.Equal(no.Flags(), c.flags) {
			t.Errorf("%+v: %s, by %q, want %s, by %q", c.consent, got, no.Flags(), c.guards, c.flags)
		}
	}
}
