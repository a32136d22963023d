package analysis

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// A ledger that lost entries does not show that a takeover was too slow, or that a job was never finished, either: what ended it may be
// among them.
func TestALostLedgerFailsNothing(t *testing.T) {
	for name, lost := range map[string]func(pos int64) bool{
		"from the fault on": func(pos int64) bool { return pos > 12 },
		"in between":        func(pos int64) bool { return pos > 12 && pos < 100 },
	} {
		e, h := load(t, "good-drill")
		without(h, func(ev *history.Event) bool { return ev.Entry != nil && lost(ev.Entry.Pos) })
		for _, s := range Judge(e, h).SLOs {
			if s.Verdict != verdict.Inconclusive {
				t.Errorf("%s: %s %s is %s: [%v, %v], %s", name, s.Lock, s.Measure, s.Verdict, s.Lo, s.Hi, s.Why)
			}
		}
	}
}

// A ledger that lost very many entries is one reason, not one an entry: each row of the verdict repeats its reasons.
func TestALostLedgerIsSaidOnce(t *testing.T) {
	for name, c := range map[string]struct {
		lost func(pos int64) bool
		want string
	}{
		"entries in between": {func(pos int64) bool { return pos%2 == 0 }, " more like it"},
		"all at the end":     {func(pos int64) bool { return pos > 3 }, " more like it"},
	} {
		e, h := load(t, "good-drill")
		without(h, func(ev *history.Event) bool { return ev.Entry != nil && c.lost(ev.Entry.Pos) })
		j := Judge(e, h)
		about := slices.DeleteFunc(slices.Clone(j.Missing), func(l verdict.Missing) bool { return !strings.Contains(l.Why, "ledger") })
		if len(about) == 0 || len(about) > 2 || !strings.Contains(about[len(about)-1].Why, c.want) {
			t.Errorf("%s: %d reasons: %+v", name, len(about), about)
		}
	}
}
