package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// months is a run a night for three months, each of six kills that took about two seconds. From night drift on they take 40 % longer with
// release 1.4, from night policy on the policy's ttl is another, and from night gap on there is no run for a week.
func months(slower, policy, gap int) (runs []*Observed) {
	r, at := rand.New(rand.NewPCG(1, 2)), time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	for i := range 90 {
		if at = at.Add(24 * time.Hour); i == gap {
			at = at.Add(7 * 24 * time.Hour)
		}
		base, ttl, release := 2.0, "60s", "1.3"
		if i >= slower {
			base, release = 2.8, "1.4"
		}
		if i >= policy {
			ttl = "30s"
		}
		values := make([]verdict.Range, 6)
		for k := range values {
			lo := base + r.NormFloat64()*0.15
			hi := lo + 0.01
			values[k] = verdict.Range{Lo: lo, Hi: &hi}
		}
		worst := slices.MaxFunc(values, func(a, b verdict.Range) int { return int(1e9 * (a.Lo - b.Lo)) })
		o := observed(fmt.Sprint("night-", i), takeovers(values...))
		o.Run.Started, o.Labels = at.Format(time.RFC3339), history.Labels{"release": release}
		o.Environment = []experiments.Setting{{Path: "mode", Value: "live"}, {Path: "system.locks.job.policy.ttl", Value: ttl}}
		o.Rows[0].Limit, o.Rows[0].N, o.Rows[0].Lo, o.Rows[0].Hi = 4, 6, worst.Lo, worst.Hi
		runs = append(runs, o)
	}
	return runs
}

// What was planted into three months of nights is said, each thing at its night, and nothing else is.
func TestThreeMonthsShowWhatWasPlantedAndNothingElse(t *testing.T) {
	const never = 1000
	for _, c := range []struct {
		name                string
		slower, policy, gap int
		answer              Answer
	}{
		{"nothing", never, never, never, ""},
		{"a slower release", 60, never, never, Regressed},
		{"a policy", never, 30, never, ""},
		{"a week without a run", never, never, 45, ""},
		{"all of it", 60, 30, 45, Refused}, // two policies before the release: nothing says what made the difference
	} {
		runs := months(c.slower, c.policy, c.gap)
		rand.New(rand.NewPCG(3, 4)).Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		e := ArchiveOf(runs, usual).Experiments[0]
		for i, r := range e.Runs {
			said := strings.Join(r.Changed, "; ")
			want := strings.TrimPrefix(map[bool]string{true: "; labels: release=1.3 -> release=1.4"}[i == c.slower]+map[bool]string{true: "; system.locks.job.policy.ttl: 60s -> 30s"}[i == c.policy], "; ")
			if said != want {
				t.Errorf("%s: night %d: changed %q, want %q", c.name, i, said, want)
			}
			if (r.Idle > 0) != (i == c.gap) {
				t.Errorf("%s: night %d: idle for %gs", c.name, i, r.Idle)
			}
		}
		switch {
		case c.answer == "" && len(e.Changes) != 0, c.answer != "" && (len(e.Changes) != 1 || e.Changes[0].Answer != c.answer):
			t.Errorf("%s: changes %+v, want %q", c.name, e.Changes, c.answer)
		}
		if len(e.Rows) != 1 || len(e.Rows[0].Values) != 90 {
			t.Errorf("%s: rows %d", c.name, len(e.Rows))
		}
	}
}

// A night that only has too few kills for a quantile sends people to the pool; any other reason is said as it is.
func TestARunIsSaidToLackKillsOnlyWhereItDoes(t *testing.T) {
	for want, change := range map[string]func(*Observed){
		"too few kills in one run for job takeover p95": func(*Observed) {},
		"no looks at keys": func(o *Observed) { o.Rows[0].Open = "no looks at keys" },
		"job busy: no answers": func(o *Observed) {
			o.Rows = append(o.Rows, Row{Sample: counted("busy", 0), Verdict: verdict.Inconclusive, Why: "no answers"})
		},
		"job stranded: 1 job": func(o *Observed) {
			o.Rows = append(o.Rows, Row{Sample: counted("stranded", 1), Verdict: verdict.Fail, Why: "1 job"})
		},
	} {
		o := night(1, 6, 0, 2)
		o.Rows[0].Verdict, o.Rows[0].Why = verdict.Inconclusive, "no looks at keys"
		change(o)
		if got := o.Why(); !strings.Contains(got, want) {
			t.Errorf("says %q, want %q", got, want)
		}
	}
}

// Between two releases the list says what compare says of the same runs: runs that gave no answer show no lack of a regression.
func TestTheListOfRunsAnswersAsCompareDoes(t *testing.T) {
	for name, unanswered := range map[string]bool{"answered": false, "inconclusive": true} {
		runs := months(60, 1000, 1000)[55:65]
		for _, r := range runs[5:] { // as fast as before
			r.Rows[0] = runs[0].Rows[0]
		}
		for _, r := range runs {
			r.Run.Answered = !unanswered
		}
		e := ArchiveOf(runs, usual).Experiments[0]
		c := compared(t, runs[:5], runs[5:], CompareOptions{Alpha: usual.Alpha, Tolerance: usual.Tolerance, Allow: []string{"tool"}})
		if want := map[bool]Answer{false: NoRegression, true: CannotSay}[unanswered]; c.Answer != want || len(e.Changes) != 1 || e.Changes[0].Answer != want {
			t.Errorf("%s: compare says %s, the list %+v", name, c.Answer, e.Changes)
		}
	}
}
