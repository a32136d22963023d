package analysis

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// Where a watch told every change, a name that was written over another's was taken, and a release is its holder's, however quick: only
// what it did not tell is open.
func TestWhatAWatchToldOfAnObservedLock(t *testing.T) {
	for name, c := range map[string]struct {
		released, direct bool
		by               string // who holds it then
		class, why       string
	}{
		"taken":            {direct: true, by: "r2.1", class: verdict.ClassFalse, why: "false takeover"},
		"by nobody known":  {direct: true, why: "whether its holder gave it back"},
		"by itself":        {direct: true, by: "r1.1", why: "whether its holder gave it back"},
		"taken, or given":  {by: "r2.1", why: "whether its holder gave it back"},
		"handed over":      {by: "r2.1", released: true, direct: true, class: verdict.ClassHandOver},
		"nobody, not told": {by: "r2.1", released: true, why: "whether its holder gave it back"},
	} {
		tape := podsObserved(21.6 - 37.05 + 1)
		told := history.Span{From: ns(21.4), To: ns(21.402)} // the last look before
		if c.released {
			tape.add(21.41, 21.59, history.Event{Kind: history.LookKind, Source: "probe:leases", Lock: "leader", Key: "billing",
				Look: &history.Look{PTTL: -2, Prev: &told, Direct: c.direct, Released: c.direct}})
		}
		e, _ := load(t, "pods-observed-lease")
		h := tape.history(t)
		edit(h, func(ev *history.Event) bool { return ev.Look != nil && ev.Epoch == "e2" }, func(ev *history.Event) {
			ev.Look.Direct, ev.Look.Holder = c.direct, c.by
		})
		j := Judge(e, h)
		class := ""
		if len(j.Takeovers) > 0 {
			class = j.Takeovers[0].Class
		}
		if r := row(t, j, "leader", "takeover.max"); class != c.class || !strings.Contains(r.Why, c.why) || r.Verdict == verdict.Pass || strings.Contains(r.Next, "shows as free") != (class == "") {
			t.Errorf("%s: %s, %s: %s %s", name, class, r.Verdict, r.Why, r.Next)
		}
	}
}
