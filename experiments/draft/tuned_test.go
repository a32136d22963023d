package draft_test

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/draft"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Whatever is wished for: the recommended policy is a valid one without a lint against it, in the snippet as in the drill; or the sum that
// breaks is named.
func TestTunedPoliciesHaveNoLints(t *testing.T) {
	t.Parallel()
	possible, broken := 0, 0
	for _, work := range []time.Duration{50 * time.Millisecond, 700 * time.Millisecond, 18 * time.Second, 5 * time.Minute} {
		for _, jitter := range []time.Duration{3 * time.Millisecond, 500 * time.Millisecond, 4 * time.Second} {
			for _, guard := range []time.Duration{0, 2 * time.Second} {
				for _, slower := range []float64{0, 1.05, 1.5, 10} { // the takeover, in leases
					for _, loop := range []bool{false, true} {
						w := lockcore.Wish{Work: work, Jitter: jitter, Guard: guard, Loop: loop, Contenders: 3, Takeover: time.Duration(slower * float64(work+jitter+guard))}
						w.Fenced, w.Idempotent = loop, slower > 1
						w.MustFinish = w.Fenced && w.Idempotent
						if tuned := lockcore.Tune(w); len(tuned.Broken) > 0 {
							broken++
						} else {
							possible++
							lintless(t, w, tuned)
						}
					}
				}
			}
		}
	}
	if possible < 50 || broken < 20 {
		t.Errorf("%d wishes are possible, %d are not: the grid shows little", possible, broken)
	}
}

// lintless checks the drills of a tuned policy, as validate --strict does.
func lintless(t *testing.T, w lockcore.Wish, tuned lockcore.Tuned) {
	t.Helper()
	lock := experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: tuned.Policy}
	if w.Loop {
		lock = experiments.Lock{Name: "leader", Key: "leader", Policy: tuned.Policy}
	}
	promised := w.Takeover
	if promised == 0 {
		promised = tuned.TakeoverMax
	}
	d := draft.Tuned{Lock: lock, Replicas: 3, P50: w.Work / 3, P99: w.Work, Offered: tuned.Pickup, Takeover: promised, Fenced: true}
	for _, text := range []string{d.Kill(), d.Hang()} {
		if text == "" && tuned.Policy.Class == lockcore.Continuity {
			continue
		}
		e, err := experiments.Parse("tuned.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%+v:\n%v\n%s", w, err, text)
		}
		for _, l := range forecast.Lints(e, 0) {
			if !l.OK {
				t.Errorf("%+v: %s: %s", w, l.Rule, l.Text)
			}
		}
	}
}
