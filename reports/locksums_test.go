package reports

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/reports/doc"
)

// What the timings allow stands beside what the simulated runs gave of it.
func TestSumsBesideTheSeeds(t *testing.T) {
	v := func(f float64) *float64 { return &f }
	lock := func(promise forecast.PromiseSum) forecast.LockSums {
		return forecast.LockSums{
			Lock: "leader", Takeover: forecast.TakeoverSum{Lo: 38, Hi: 94}, Promises: []forecast.PromiseSum{promise},
			Failures: &forecast.FailureSum{Class: "legacy_count", Safe: 2, Count: 3},
			Wait:     &forecast.WaitSum{Budget: 2, TTL: 10, Busy: 8},
			Cadence:  &forecast.CadenceSum{Poll: 30, Alone: 60, Least: 60, Races: true},
			Seeds: &forecast.SeedSums{Takeovers: 400, Open: 1, Min: v(41.234), Mean: v(59.1), Error: v(0.6), Max: v(88.91), Met: []forecast.PromiseSeed{{Limit: "max", Share: v(0.88)}},
				GivenUp: 3, Late: 2, Waits: 9, Refused: 4, TickEvery: v(63.62)},
		}
	}
	foreign := lock(forecast.PromiseSum{Limit: "max", Value: 95.5, Prompt: true})
	foreign.Takeover.Untold = "the retry"
	planned := lock(forecast.PromiseSum{Limit: "max", Value: 70, Luck: true})
	planned.Seeds = nil
	for name, c := range map[string]struct {
		lock forecast.LockSums
		want []string
		not  string
	}{
		"rehearsed": {lock(forecast.PromiseSum{Limit: "max", Value: 70, Luck: true}), []string{
			"What the timings allow, and what 200 simulated runs gave",
			"38s to 94s by the timings (L3); simulated: 41.2s to 88.9s in 400 takeovers, of which 1 did not end",
			"mean simulated: 59.1s, give or take 600ms\n",
			"max 70s Your timings do not guarantee it. 88% of the simulated takeovers met it.",
			"2 renewals in a row may fail before the lease is unsafe; the policy waits for 3, which is too late (L1); simulated: given up 3 times, 2 times too late or never",
			"2s, under ttl 10s: a waiter that comes when the fault strikes may give up, and is refused (busy) for up to 8s; simulated: 4 of 9 waits after a fault gave up",
			"a run every 60s, or every 90s when a poll just misses the end of the lease, and not every poll 30s; simulated: every 63.6s on average",
		}, "without delay"},
		"not rehearsed":                 {planned, []string{"38s to 94s by the timings (L3)\n", "max 70s Your timings do not guarantee it.\n"}, "simulated:"},
		"nothing but calls is left out": {lock(forecast.PromiseSum{Limit: "max", Value: 91, Luck: true, Prompt: true}), []string{"max 91s Met as long as the store answers without delay. 88%"}, "guarantee it"},
		"the limit is below the band":   {lock(forecast.PromiseSum{Limit: "max", Value: 30, Luck: true}), []string{"max 30s Your timings cannot meet it. 88%"}, "guarantee it"},
		"a part is not known":           {foreign, []string{"38s to 94s by the timings (L3), plus the retry;", "max 95.5s Your timings leave 1.5s of it for the retry."}, "guarantee it"},
	} {
		got := doc.Text(Rehearsal(&forecast.Rehearsal{Seeds: 200, Locks: []forecast.LockSums{c.lock}}, "again"), doc.Full, doc.Look{Width: 1000})
		text := strings.Join(strings.FieldsFunc(got, func(r rune) bool { return r == ' ' }), " ")
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in\n%s", name, w, got)
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%s: %q in\n%s", name, c.not, got)
		}
	}
}

// A rehearsal begins with what its exit status says, and a seed too many is no success.
func TestARehearsalHasTheWordOfItsStatus(t *testing.T) {
	missed := []forecast.RehearsedExpectation{{Missed: 1}}
	for want, r := range map[string]forecast.Rehearsal{
		"REHEARSAL  HELD":         {Seeds: 10, Breach: 0.1, FailAbove: 0.1},
		"REHEARSAL  FAIL":         {Seeds: 10, Breach: 0.2, FailAbove: 0.1, Expected: missed},
		"REHEARSAL  INCONCLUSIVE": {Seeds: 10, Expected: missed},
	} {
		if got := doc.Text(Rehearsal(&r, "again"), doc.Full, doc.Look{}); !strings.HasPrefix(got, want+"  ") {
			t.Errorf("want %s at the start of\n%s", want, got)
		}
	}
}

// Few seeds say their count, and a column has one kind of figure.
func TestBreachesAreCounted(t *testing.T) {
	for share, want := range map[float64]string{0: "0 of 20", 0.05: "1 of 20", 0.35: "7 of 20", 1: "20 of 20"} {
		if got := shareOfSeeds(share, 20); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}
