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
	for name, c := range map[string]struct {
		lock forecast.RehearsedLock
		want []string
		not  string
	}{
		"they agree": {lock(60, 59.1), []string{
			"38s to 94s is possible (L3); the seeds gave 41.2s to 88.9s in 400 takeovers, of which 1 have no end",
			"the sum says ttl 60s - renewal 20s / 2 + poll 30s / 3 = 60s where its assumptions hold, the seeds gave 59.1s, give or take 600ms\n",
			"max 70s met by luck, in 87.5% of such faults; the seeds: in 88%",
			"2 renewals in a row may fail before the lease is unsafe; the policy waits for 3: too late (L1); the seeds: given up 3 times, 2 too late or never",
			"2s, under ttl 10s: who comes when the fault strikes gives up in 80% of the cases, and for up to 8s others are told busy; the seeds: 4 of 9 waits after a fault gave up",
			"not every poll 30s: every 60s or, since the poll races the end of the lease, every 90s; the seeds: every 63.6s on average",
		}, "does not apply"},
		"they differ": {lock(60, 50), []string{"the seeds gave 50s, give or take 600ms: something besides the kills takes time"}, "does not apply"},
		"the assumptions do not hold": {lock(60, 50, "polls keep step"), []string{
			"the seeds gave 50s, give or take 600ms; no sum to hold it against\n", "the sum does not apply: polls keep step", "it takes luck; the seeds: in 88%"}, "60s where"},
		"the limit is below the band": {tight, []string{"max 30s below all that is possible; the seeds: in 88%"}, "it takes luck"},
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
