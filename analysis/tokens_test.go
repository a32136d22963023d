package analysis

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Nobody claims grants of an observed lock: a token that comes back after another's is a second grant of it. That none came back unseen
// only effects with tokens can tell.
func TestAnObservedTokenThatComesBackIsADuplicate(t *testing.T) {
	for _, c := range []struct {
		name    string
		back    bool
		tokens  bool // told by logs
		effects bool
		want    verdict.Verdict
	}{
		{"comes back", true, true, false, verdict.Fail},
		{"does not, as far as looks tell", false, true, false, verdict.Inconclusive},
		{"does not", false, false, true, verdict.Pass},
		{"a name comes back", true, false, false, verdict.Inconclusive},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _ := load(t, "pods-observed-lease")
			e.SLOs = append(e.SLOs, experiments.SLO{Lock: "leader", DuplicateEpochs: &experiments.CountLimit{Bound: experiments.Bound[int]{Max: new(int)}}})
			if c.tokens {
				e.System.Holder = []experiments.HolderSource{{Log: &experiments.HolderLog{Pattern: "x"}}}
			}
			if c.effects {
				e.System.Effects = []experiments.Effects{{Name: "ticks", Lock: "leader", Map: experiments.EffectMap{Token: "token"}}}
			}
			tape := podsObserved(0)
			if c.effects {
				tape.cover("effects:ticks", 75)
			}
			h := tape.history(t)
			if c.back {
				edit(h, func(ev *history.Event) bool { return ev.Look != nil && ev.From > ns(60) }, func(ev *history.Event) { ev.Epoch = "e1" })
			}
			r := row(t, Judge(e, h), "leader", "duplicate_epochs")
			if r.Verdict != c.want || r.Unfit == (c.tokens || c.effects) || c.back && c.tokens && (r.Lo != 1 || !strings.Contains(r.Why, "Key billing was granted twice under one token")) {
				t.Errorf("%s [%v, %v] of %d: %s", r.Verdict, r.Lo, r.Hi, r.N, r.Why)
			}
		})
	}
}
