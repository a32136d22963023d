package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/internal/testkit/storetest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
)

func TestStore(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	storetest.Store(t,
		func(*testing.T) lockcore.Store { return memstore.NewStore(clock) },
		func(d time.Duration) { now = now.Add(d) })
}

// By default the store runs on time.Now, which a synctest bubble fakes.
func TestDefaultClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.NewStore(nil)
		if _, err := s.Acquire(t.Context(), "k", "one", time.Second); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if _, err := s.Acquire(t.Context(), "k", "two", time.Second); err != nil {
			t.Errorf("acquire at the lease's end: %v", err)
		}
	})
}

func TestLedger(t *testing.T) {
	storetest.Ledger(t, func(*testing.T) lockcore.Ledger { return memstore.NewLedger() })
}

func TestLedgerEntries(t *testing.T) {
	l := memstore.NewLedger()
	for i, fence := range []int64{5, 4, 6} {
		e := lockcore.Effect{Key: "k", Subject: "s", State: "begin", Fence: fence, Op: string(rune('a' + i))}
		if _, err := l.Write(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	all := l.Entries(0)
	if len(all) != 3 || all[1].Accepted || all[1].Reason != "fenced" || all[2].Pos != 3 {
		t.Errorf("entries %+v: want 3 in order, the second refused", all)
	}
	if rest := l.Entries(2); len(rest) != 1 || rest[0].Pos != 3 {
		t.Errorf("entries after 2: %+v", rest)
	}
}
