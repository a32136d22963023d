package reports

import (
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

func TestWhatWatchingCost(t *testing.T) {
	ours, all := 0.021, 0.353
	for want, c := range map[string]verdict.WatchCost{
		"by keyspace events: 51,200 commands, 1 event; about 2.1% of a core of the store, which used 35.3% in all":                 {Way: "events", Commands: 51200, Events: 1, Core: &ours, Store: &all},
		"by reading the keys in turn: 1 command; the store does not tell what that cost it. No keyspace events: NOPERM no channel": {Way: "polling", Why: "NOPERM no channel", Commands: 1},
	} {
		if got := costText(&c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
