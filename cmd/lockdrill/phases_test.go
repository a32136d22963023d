package main

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

func drilled(yaml string) func(t *testing.T) drillOut {
	return func(t *testing.T) drillOut { return runDrill(t, yaml, nil) }
}

// A kill strikes at the moment within the lease that the file asks for.
func TestLiveKillsStrikeAtTheirMoment(t *testing.T) {
	t.Parallel()
	needDrill(t)
	for _, c := range []struct {
		name  string
		run   func(t *testing.T) drillOut
		after history.Kind  // the victim's last success before the kill
		min   time.Duration // from its call; how much later it comes is the machine's
	}{
		{"after_renew", goodRun, history.RenewReturn, 0},
		{"before_renew", drilled(edit(t, goodDrill, "ttl: 400ms", "ttl: 2s", "renew_every: 100ms", "renew_every: 500ms", // a tenth of it is the time to strike in
			"after_renew", "before_renew", goodSLO, shortSLO)), "", 450 * time.Millisecond},
		{"acquired", drilled(edit(t, goodDrill, "holder_of: loop, phase: after_renew", "holder_of: job, on: acquired", "{lock: loop,", "{lock: job,", "jobs: 40", "jobs: 80")), history.AcquireReturn, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := c.run(t)
			h, err := readHistory(o.dir)
			if err != nil {
				t.Fatal(err)
			}
			last, struck, kills := map[string]history.Event{}, map[string]history.Event{}, 0
			for _, e := range h.Events {
				switch {
				case (e.Kind == history.AcquireReturn || e.Kind == history.RenewReturn) && e.Outcome == history.OK:
					last[e.Epoch] = e
				case e.Kind == history.FaultApplied:
					struck[e.Op] = e
				case e.Kind == history.FaultConfirmed: // one that came too late is void
					kills++
					was, kill := last[e.Epoch], struck[e.Op]
					d := time.Duration(kill.From - was.From)
					t.Logf("%s struck %s after the call of %s", e.Op, d, was.Kind)
					if kill.From < was.To || d < c.min || c.after != "" && was.Kind != c.after {
						t.Errorf("%s struck %s after the call of %s, want %s and at least %s", e.Op, d, was.Kind, c.after, c.min)
					}
				}
			}
			if kills == 0 {
				t.Errorf("nobody was killed at that moment\n%s", o.text)
			}
		})
	}
}
