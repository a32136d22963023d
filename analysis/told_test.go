package analysis

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/history"
)

// Where a watch told every change, a name that was written over another's was taken, and a release is its holder's, however quick: only
// what it did not tell is open.
func TestWhatAWatchToldOfAnObservedLock(t *testing.T) {
	for name, c := range map[string]struct {
		released, direct bool
		class, why       string
	}{
		"taken":            {direct: true, class: ClassFalse, why: "false takeover"},
		"taken, or given":  {why: "whether its holder gave it back"},
		"handed over":      {released: true, direct: true, class: ClassHandOver},
		"nobody, not told": {released: true, why: "whether its holder gave it back"},
	} {
		tape := podsObserved(21.6 - 37.05 + 1)
		told := history.Span{From: ns(21.4), To: ns(21.402)} // the last look before
		if c.released {
			tape.add(21.41, 21.59, history.Event{Kind: history.LookKind, Source: "probe:leases", Lock: "leader", Key: "billing",
				Look: &history.Look{PTTL: -2, Prev: &told, Direct: c.direct, Released: c.direct}})
		}
		e, _ := load(t, "pods-observed-lease")
		h, err := history.Read(bytes.NewReader(tape.lines("pods-observed-lease", digest(t, "pods-observed-lease"))))
		if err != nil {
			t.Fatal(err)
		}
		edit(h, func(ev *history.Event) bool { return ev.Look != nil && ev.Epoch == "e2" }, func(ev *history.Event) { ev.Look.Direct = c.direct })
		j := Judge(e, h)
		class := ""
		if len(j.Takeovers) > 0 {
			class = j.Takeovers[0].Class
		}
		if r := row(t, j, "leader", "takeover.max"); class != c.class || !strings.Contains(r.Why, c.why) || r.Verdict == Pass {
			t.Errorf("%s: %s, %s: %s", name, class, r.Verdict, r.Why)
		}
	}
}
