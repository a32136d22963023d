package analysis

import (
	"testing"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/history"
)

// Nobody tells of belief in an observed system. Its holder is whom looks or a fault name, until its death or the end of the lease.
func TestAnObservedHolderHoldsUntilItsDeath(t *testing.T) {
	died, never := int64(21_700_000_000), int64(facts.Open)
	for _, c := range []struct {
		name     string
		by       string  // who names the holder
		extended float64 // when the lease of the dead is extended; 0 = never
		named    bool    // looks name holders
		first    string  // whose the first lease is
		second   string
		until    int64 // the end of the first holder; infinite = the end of the lease
	}{
		{"looks name it", "client", 0, true, "r1.1", "r2.1", died},
		{"another extends its lease", "client", 30, true, "", "r2.1", never},
		{"its next life extends its lease", "value", 30, true, "r1.1", "r2.1", never},
		{"only the fault names it", "", 0, false, "r1.1", "", died},
	} {
		t.Run(c.name, func(t *testing.T) {
			tape := podsObserved(1 + c.extended/2)
			if c.extended != 0 {
				tape.lease(c.extended, want{"leader", "billing", 15}, "e1", "r1.1")
			}
			e, _ := load(t, "pods-observed-lease")
			h := tape.history(t)
			edit(h, func(ev *history.Event) bool { return ev.Look != nil }, func(ev *history.Event) {
				if ev.Look.By = c.by; !c.named {
					ev.Look.Holder = ""
				}
			})
			f := FactsOf(e, h)
			epochs := f.KeyOrder[0].Epochs
			if len(epochs) != 2 {
				t.Fatalf("%d epochs", len(epochs))
			}
			first, until := f.HolderOf(epochs[0])
			second, last := f.HolderOf(epochs[1])
			if first != c.first || second != c.second {
				t.Errorf("held by %q and %q, want %q and %q", first, second, c.first, c.second)
			}
			if until == nil || last == nil {
				t.Fatalf("held until %v and %v", until, last)
			}
			if want := min(c.until, epochs[0].Lease.Freed.To); until.To != want {
				t.Errorf("the first holder held until %+v, its lease ended at %+v, want %v", *until, epochs[0].Lease.Freed, want)
			}
			if *last != epochs[1].Lease.Freed {
				t.Errorf("the second holder held until %+v, its lease ends at %+v", *last, epochs[1].Lease.Freed)
			}
		})
	}
}
