// Package pointtest holds those points that a lock must get right in which its store has a part, against a store on a real server and in
// real time: the server stands still, or a reply is lost. Package client tests all fourteen exactly, in memory and on virtual time, and
// package storetest what a store answers. It is for tests only. Its one invariant: instants are compared with the client's own events, and
// only in the direction in which a slow machine cannot err.
package pointtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// Server is a store on a server of the test's own, and what can be done to it.
type Server struct {
	Store  lockcore.Store
	Stop   func(t *testing.T)      // it stands still, until it is resumed
	Resume func(t *testing.T)      //
	Cut    func(renewals, on bool) // the reply of the next renewal, or of the next other operation, is lost
	Lost   time.Duration           // op timeout with which a renewal is tried whose reply is lost
}

// Open starts one, until the test ends.
type Open func(t *testing.T) *Server

// Run holds a store to the points.
func Run(t *testing.T, open Open) {
	for name, point := range map[string]func(*testing.T, Open){
		"02 and 03": point02And03,
		"07":        point07,
		"08":        point08,
		"11":        point11,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits, most of the time
			point(t, open)
		})
	}
}

const (
	ttl    = 4 * time.Second
	budget = time.Second // also what a machine that stalls may take
	drift  = 40 * time.Millisecond
)

// rig is a client on a server of its own.
type rig struct {
	*client.Client
	*Server

	mu     sync.Mutex
	events []history.Event
	before func(history.Event) // called with each event before it is kept
}

func policy() lockcore.Policy {
	return lockcore.Policy{
		TTL: ttl, RenewEvery: 100 * time.Millisecond, Class: lockcore.Standard, OpTimeout: time.Second, Drift: drift, StopBudget: budget,
		Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 3, Timeout: 2 * time.Second, AfterAbandon: lockcore.AfterAbandonStopped},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 10 * time.Second},
	}
}

func newRig(t *testing.T, open Open, p lockcore.Policy) *rig {
	t.Helper()
	r := &rig{Server: open(t)}
	c, err := client.New(client.Options{Store: r.Store, Policy: p, Lock: "job", Source: "r1.1", Emit: r.keep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r.Client = c
	return r
}

func (r *rig) keep(e history.Event) {
	r.mu.Lock()
	before := r.before
	r.mu.Unlock()
	if before != nil {
		before(e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *rig) of(k history.Kind) (found []history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	return found
}

func (r *rig) on(before func(history.Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
}

func (r *rig) hold(t *testing.T) *client.Handle {
	t.Helper()
	h, err := r.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// until waits for something to come true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll, limit := time.NewTicker(2*time.Millisecond), time.After(20*time.Second)
	defer poll.Stop()
	for !ok() {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

func ended(t *testing.T, h *client.Handle) lockcore.Reason {
	t.Helper()
	select {
	case <-h.Context().Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the holder is never told")
	}
	var a *client.AbandonedError
	if !errors.As(context.Cause(h.Context()), &a) {
		t.Fatalf("cause %v, want an abandonment", context.Cause(h.Context()))
	}
	return a.Reason
}

func point02And03(t *testing.T, open Open) {
	p := policy()
	p.OpTimeout = time.Minute
	r := newRig(t, open, p)
	h := r.hold(t)
	r.Stop(t)
	if why := ended(t, h); why != lockcore.ReasonDeadline {
		t.Errorf("told %s, want deadline", why)
	}
	until(t, "the renewal that hangs ends by itself", func() bool { return len(r.of(history.RenewReturn)) == len(r.of(history.RenewInvoke)) })
	sent := r.of(history.AcquireReturn)[0].From
	renewals := r.of(history.RenewReturn)
	for _, e := range renewals {
		if e.Outcome == history.OK {
			sent = e.From
		}
	}
	end := sent + int64(ttl-drift)
	if f := r.of(history.FenceObserved)[0]; f.From < end-int64(budget) || f.From >= end {
		t.Errorf("told %s before the validity end, want at most %s, and before it", time.Duration(end-f.From), budget)
	}
	hung := renewals[len(renewals)-1]
	if late := time.Duration(hung.To - end); hung.Outcome != history.Unknown || late > 5*time.Second {
		t.Errorf("the renewal that hangs ended %s after the validity end, %s: its own timeout is a minute", late, hung.Outcome)
	}
	r.Resume(t)
}

func point07(t *testing.T, open Open) {
	p := policy()
	p.RenewEvery = 0
	r := newRig(t, open, p)
	if err := r.hold(t).Release(t.Context()); err != nil { // connections and scripts are there
		t.Fatal(err)
	}
	r.Cut(false, true)
	_, err := r.Acquire(t.Context(), "k")
	var unknown *client.UnknownError
	if !errors.As(err, &unknown) {
		t.Errorf("acquire: %v, want *UnknownError", err)
	}
	until(t, "the grant is undone", func() bool { return len(r.of(history.UndoReturn)) > 0 })
	if undo, asked := r.of(history.UndoReturn)[0], r.of(history.AcquireInvoke)[1]; undo.Outcome != history.OK || undo.Epoch != asked.Epoch {
		t.Errorf("undo %+v, want one of epoch %s that took something back", undo, asked.Epoch)
	}
	r.hold(t) // at once, not after its TTL
}

func point08(t *testing.T, open Open) {
	p := policy()
	p.RenewEvery = 0
	r := newRig(t, open, p)
	if err := r.hold(t).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := r.hold(t)
	r.Cut(false, true)
	if err := h.Release(t.Context()); err != nil {
		t.Errorf("release: %v: it took effect, and the second try could see that", err)
	}
	got := r.of(history.ReleaseReturn)[1:]
	if len(got) != 2 || got[0].Outcome != history.Unknown || got[1].Call.Result != history.ResultAbsent {
		t.Errorf("returns %+v, want unknown, then absent", got)
	}
}

func point11(t *testing.T, open Open) {
	const answers = "xxoxoxxx" // of the renewals: of x the reply is lost, o is answered
	server, p := open(t), policy()
	p.Class, p.MaxFailures, p.TTL, p.StopBudget, p.OpTimeout = lockcore.LegacyCount, 3, time.Hour, 0, server.Lost
	r := newRig(t, func(*testing.T) *Server { return server }, p)
	n := 0
	r.on(func(e history.Event) {
		if e.Kind != history.RenewInvoke {
			return
		}
		if n++; n <= len(answers) {
			r.Cut(true, answers[n-1] == 'x')
		}
	})
	h := r.hold(t)
	if why := ended(t, h); why != lockcore.ReasonCount {
		t.Errorf("told %s, want count", why)
	}
	until(t, "it is reported", func() bool { return len(r.of(history.FenceObserved)) == 1 })
	var got []byte
	for _, e := range r.of(history.RenewReturn) {
		got = append(got, map[history.Outcome]byte{history.OK: 'o', history.Unknown: 'x', history.Fail: 'f'}[e.Outcome])
	}
	if string(got) != answers {
		t.Errorf("told after renewals that went %s, want %s", got, answers)
	}
}
