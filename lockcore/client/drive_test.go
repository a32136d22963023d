package client

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
)

// fixed is a clock that stands where it was put.
type fixed struct{ lockcore.Instant }

func (f *fixed) Now() lockcore.Instant { return f.Instant }

// A machine has one driver: while a caller follows a release, what the client's goroutines bring steps it in nothing, even where a try is due.
func TestAMachineHasOneDriver(t *testing.T) {
	at := &fixed{}
	c, err := New(Options{Store: memstore.NewStore(nil), Clock: at, Policy: lockcore.Policy{TTL: 10 * time.Second, Class: lockcore.Standard, OpTimeout: time.Second,
		Release: lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: time.Second, AfterAbandon: lockcore.AfterAbandonSkip}, Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: time.Second}}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	td, first := h.end(lockcore.Stop)
	if !first || td.task.call.Op != lockcore.OpRelease {
		t.Fatalf("the end of a hold asks for %+v", td.task)
	}
	ok := lockcore.Input{Kind: lockcore.Reply, Call: td.task.call.ID, Result: lockcore.OK}
	if h.step(byClient, ok); h.is(func() bool { return h.result != "" }) {
		t.Error("the client's goroutines took a reply that is its caller's")
	}
	if h.step(byCaller, ok); h.is(func() bool { return h.result != lockcore.OK }) {
		t.Error("the caller's own reply is lost")
	}
}
