package main

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// A kill strikes at the moment within the lease that the file asks for.
func TestKillsStrikeAtTheirMoment(t *testing.T) {
	needDrill(t)
	t.Parallel()
	const slack = 40 * time.Millisecond // a busy machine
	for _, c := range []struct {
		name     string
		yaml     string
		after    history.Kind  // the victim's last success before the kill
		min, max time.Duration // from its reply
	}{
		{"after_renew", goodDrill, history.RenewReturn, 0, slack},
		{"before_renew", edit(t, goodDrill, "after_renew", "before_renew"), "", 80 * time.Millisecond, 95*time.Millisecond + slack},
		{"acquired", edit(t, goodDrill, "holder_of: loop, phase: after_renew", "holder_of: job, on: acquired", "{lock: loop,", "{lock: job,"), history.AcquireReturn, 0, slack},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := runDrill(t, c.yaml, nil)
			h, err := readHistory(o.dir)
			if err != nil {
				t.Fatal(err)
			}
			last, kills := map[string]history.Event{}, 0
			for _, e := range h.Events {
				switch {
				case (e.Kind == history.AcquireReturn || e.Kind == history.RenewReturn) && e.Outcome == history.OK:
					last[e.Epoch] = e
				case e.Kind == history.FaultApplied:
					kills++
					was := last[e.Epoch]
					if d := time.Duration(e.From - was.To); d < c.min || d > c.max || c.after != "" && was.Kind != c.after {
						t.Errorf("%s struck %s after %s, want %s within [%s, %s]", e.Op, d, was.Kind, c.after, c.min, c.max)
					}
				}
			}
			if kills == 0 {
				t.Errorf("nobody was killed\n%s", o.text)
			}
		})
	}
}
