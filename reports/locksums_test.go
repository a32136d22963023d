package reports

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/forecast"
)

// A sum stands beside what the seeds gave only where its assumptions hold; otherwise the report says what speaks against it.
func TestSumsBesideTheSeeds(t *testing.T) {
	v := func(f float64) *float64 { return &f }
	lock := func(mean, gave float64, unless ...string) forecast.RehearsedLock {
		return forecast.RehearsedLock{
			LockSums: forecast.LockSums{
				Lock: "leader", Takeover: forecast.TakeoverSum{Lo: 38, Hi: 94, Mean: &mean, Form: "ttl 60s - renewal 20s / 2 + poll 30s / 3", Unless: unless},
				Promises: []forecast.PromiseSum{{Limit: "max", Value: 70, Chance: 0.875, Luck: true}},
				Failures: &forecast.FailureSum{Class: "legacy_count", Safe: 2, Count: 3},
				Wait:     &forecast.WaitSum{Budget: 2, TTL: 10, Busy: 8, GiveUp: 0.8},
				Cadence:  &forecast.CadenceSum{Poll: 30, Alone: 60, Least: 60, Races: true},
			},
			Seeds: forecast.SeedSums{Takeovers: 400, Open: 1, Min: v(41.234), Mean: &gave, Error: v(0.6), Max: v(88.91), Met: []forecast.PromiseSeed{{Limit: "max", Share: v(0.88)}},
				GivenUp: 3, Late: 2, Waits: 9, Refused: 4, TickEvery: v(63.62)},
		}
	}
	tight := lock(60, 50, "polls keep step")
	tight.Promises[0].Value = 30
	foreign := lock(60, 60)
	foreign.Takeover.Untold = "the retry"
	foreign.Promises[0] = forecast.PromiseSum{Limit: "max", Value: 95.5, Chance: 1}
	for name, c := range map[string]struct {
		lock forecast.RehearsedLock
		want []string
		not  string
	}{
		"they agree": {lock(60, 59.1), []string{
			"38s to 94s by the timings (L3); simulated: 41.2s to 88.9s in 400 takeovers, of which 1 did not end",
			"ttl 60s - renewal 20s / 2 + poll 30s / 3 = 60s as long as Redis answers without delay; simulated: 59.1s, give or take 600ms\n",
			"max 70s Your timings do not guarantee it: 87.5% of such faults meet it. 88% of the simulated takeovers met it.",
			"2 renewals in a row may fail before the lease is unsafe; the policy waits for 3, which is too late (L1); simulated: given up 3 times, 2 times too late or never",
			"2s, under ttl 10s: a waiter that comes when the fault strikes gives up in 80% of the cases, and others are refused (busy) for up to 8s; simulated: 4 of 9 waits after a fault gave up",
			"a run every 60s, or every 90s when a poll just misses the end of the lease, and not every poll 30s; simulated: every 63.6s on average",
		}, "something besides"},
		"they differ": {lock(60, 50), []string{"simulated: 50s, give or take 600ms, so something besides the kills takes time"}, "polls keep"},
		"the assumptions do not hold": {lock(60, 50, "polls keep step"), []string{
			"mean simulated: 50s, give or take 600ms\n", "Your timings do not guarantee it. 88% of"}, "= 60s"},
		"the limit is below the band": {tight, []string{"max 30s Your timings cannot meet it. 88%"}, "guarantee it"},
		"a part is not known":         {foreign, []string{"38s to 94s by the timings (L3), plus the retry;", "max 95.5s Your timings leave 1.5s of it for the retry."}, "guarantee it"},
	} {
		var got bytes.Buffer
		if err := Rehearsal(&got, &forecast.Rehearsal{Seeds: 200, Locks: []forecast.RehearsedLock{c.lock}}, "again", Options{Width: 1000}); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.FieldsFunc(got.String(), func(r rune) bool { return r == ' ' }), " ")
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in\n%s", name, w, got.String())
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%s: %q in\n%s", name, c.not, got.String())
		}
	}
}
