package runner

import (
	"context"
	"testing"

	"github.com/lockdrill/lockdrill/history"
)

// A log forgets what comes with each job and is not recent, once the loop has read it; what a run is made of stays, in its order.
func TestALogForgetsWhatPasses(t *testing.T) {
	l := NewLog()
	add := func(k history.Kind) { l.Add([]history.Event{{N: int64(l.first+len(l.events)) + 1, Kind: k}}) }
	add(history.ReplicaStart)
	add(history.AcquireInvoke)
	add(history.ReleaseInvoke)
	for range 3 * recent {
		add(history.LookKind)
	}
	if n := len(l.Since(0)); n != 3*recent+3 {
		t.Fatalf("%d events are left of %d that the loop has not read", n, 3*recent+3)
	}
	if n := len(l.Take()); n != 3*recent+3 {
		t.Fatalf("the loop gets %d events of %d", n, 3*recent+3)
	}
	add(history.FaultIntent)
	if news := l.Take(); len(news) != 1 || news[0].Kind != history.FaultIntent {
		t.Fatalf("the loop gets %d events, want the one that is new", len(news))
	}
	left, next := l.From(0)
	if len(left) > 2*recent+3 || next != 3*recent+4 {
		t.Fatalf("%d events are left, the next has index %d", len(left), next)
	}
	if left[0].Kind != history.ReplicaStart || left[1].Kind != history.ReleaseInvoke || left[len(left)-1].N != int64(next) {
		t.Errorf("left is %s, %s ... %s, want what a run is made of and the newest", left[0].Kind, left[1].Kind, left[len(left)-1].Kind)
	}
	if first := l.Since(2); first[0].Kind != history.ReleaseInvoke {
		t.Errorf("from index 2 on the log begins with %s", first[0].Kind)
	}
	is := func(k history.Kind) func(history.Event) bool {
		return func(e history.Event) bool { return e.Kind == k }
	}
	if !l.Any(0, is(history.ReplicaStart)) || l.Any(1, is(history.ReplicaStart)) || l.Any(0, is(history.AcquireInvoke)) || !l.Any(2, is(history.FaultIntent)) {
		t.Error("Any does not match what is kept from an index on")
	}
	if e, err := l.Await(t.Context(), 3, is(history.FaultIntent)); err != nil || e.N != int64(next) {
		t.Errorf("Await gives event %d, %v, want %d", e.N, err, next)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Await(over, next, is(history.FaultIntent)); err == nil {
		t.Error("Await finds an event that comes before the index")
	}
}
