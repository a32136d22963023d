package runner

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// fakeStore is a store that the test restarts, flushes or stops.
type fakeStore struct {
	mu     sync.Mutex
	runID  string
	marker bool
	late   bool // the next look saw the marker before this life began
	err    error
}

func (f *fakeStore) set(edit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit()
}

func (f *fakeStore) store() Store {
	return Store{
		Name: "locks",
		Life: func(context.Context) (string, bool, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			marker := f.marker || f.late
			f.late = false
			return f.runID, marker, f.err
		},
		Mark: func(context.Context) error { f.set(func() { f.marker = true }); return nil },
	}
}

func TestStoreIncarnationsAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, rec, buf := recorded(t)
		f := &fakeStore{runID: "a", marker: true}
		ctx, cancel := context.WithCancel(t.Context())
		fault := true
		l := startLives(ctx, rec, clock, []Store{f.store()}, func(string) bool { return fault })
		pass := func(d time.Duration, edit func()) {
			<-time.After(d)
			synctest.Wait()
			f.set(edit)
		}
		pass(time.Second, func() { f.marker = false }) // a flush keeps the run id
		pass(time.Second, func() { f.runID = "b" })    // a restart
		pass(time.Second, func() { f.runID, f.marker, f.late = "c", false, true })
		pass(time.Second, func() { f.err = errors.New("refused") })
		pass(3*storeLostFor, func() { fault = false })
		select {
		case why := <-l.lost:
			t.Errorf("a store that a fault keeps away was reported: %s", why)
		default:
		}
		pass(storeLostFor+time.Second, func() {})
		select {
		case why := <-l.lost:
			t.Logf("lost: %s", why)
		default:
			t.Error("a store that does not answer any more was not reported as lost")
		}
		cancel()
		l.wait()
		h, err := history.Read(buf)
		testkit.Must(t, err)
		var got []string
		for _, e := range h.Events {
			got = append(got, e.Incarnation.Why)
			if e.Incarnation.Life != len(got) || e.Width() > int64(2*lifeEvery) {
				t.Errorf("life %d in %s", e.Incarnation.Life, e.Span)
			}
		}
		want := []string{"start", "marker_lost", "run_id_changed", "run_id_changed"}
		if len(got) != len(want) {
			t.Fatalf("incarnations %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("incarnation %d is %q, want %q", i+1, got[i], want[i])
			}
		}
	})
}

// A store whose primary somebody else replaces may be away for longer.
func TestAStoreIsLostOnlyAfterTheTimeThatItMayBeAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() int64 { return int64(time.Since(start)) }
		rec, err := history.NewRecorder(&bytes.Buffer{}, history.Header{Run: "r", Experiment: "x", Mode: history.Live, TimeScale: 1}, clock, nil)
		testkit.Must(t, err)
		f := &fakeStore{runID: "a", marker: true}
		s := f.store()
		s.Away = 4 * storeLostFor
		ctx, cancel := context.WithCancel(t.Context())
		l := startLives(ctx, rec, clock, []Store{s}, func(string) bool { return false })
		lost := func(within time.Duration) bool {
			select {
			case <-l.lost:
				return true
			case <-time.After(within):
				return false
			}
		}
		f.set(func() { f.err = errors.New("refused") })
		if lost(3 * storeLostFor) {
			t.Error("it was lost before its time")
		}
		f.set(func() { f.err, f.runID = nil, "b" }) // another primary
		if lost(3 * storeLostFor) {
			t.Error("it was lost although it came back")
		}
		f.set(func() { f.err = errors.New("refused") })
		if !lost(5 * storeLostFor) {
			t.Error("it was away for longer than it may be, and nobody said so")
		}
		cancel()
		l.wait()
	})
}
