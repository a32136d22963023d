//go:build full

package etcdstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// The fourteen points that a lock must get right (package client tests them exactly, in memory and on virtual time), on a real etcd and real
// time. What goes wrong goes wrong on the wire: the server stands still, a reply is lost, a key is deleted. Instants are compared with
// the client's own events, and only in the direction in which a slow machine cannot err.

const (
	pointTTL    = 4 * time.Second
	pointBudget = time.Second // also what a machine that stalls may take
	pointDrift  = 40 * time.Millisecond
)

func TestPoint01OnAnEtcd(t *testing.T) {
	t.Parallel() // it waits, most of the time
	r := newPointRig(t, pointPolicy())
	r.stop(t)
	r.on(func(e history.Event) {
		if e.Kind == history.AcquireInvoke { // it is about to be sent
			time.AfterFunc(200*time.Millisecond, func() { r.resume(t) })
		}
	})
	h := r.hold(t)
	left, back := h.Remaining(), r.of(history.AcquireReturn)[0]
	took := time.Duration(back.Width())
	if took < 200*time.Millisecond {
		t.Fatalf("the paused server answered after %s: it proves nothing", took)
	}
	if most := pointTTL - pointDrift - took; left > most {
		t.Errorf("%s remain after a grant that took %s, want at most %s: validity counts from the sending", left, took, most)
	}
}

func TestPoint02And03OnAnEtcd(t *testing.T) {
	t.Parallel() // it waits, most of the time
	p := pointPolicy()
	p.OpTimeout = time.Minute
	r := newPointRig(t, p)
	h := r.hold(t)
	r.stop(t)
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
	end := sent + int64(pointTTL-pointDrift)
	if f := r.of(history.FenceObserved)[0]; f.From < end-int64(pointBudget) || f.From >= end {
		t.Errorf("told %s before the validity end, want at most %s, and before it", time.Duration(end-f.From), pointBudget)
	}
	hung := renewals[len(renewals)-1]
	if late := time.Duration(hung.To - end); hung.Outcome != history.Unknown || late > 5*time.Second {
		t.Errorf("the renewal that hangs ended %s after the validity end, %s: its own timeout is a minute", late, hung.Outcome)
	}
	r.resume(t)
}

func TestPoint04OnAnEtcd(t *testing.T) {
	t.Parallel() // it waits, most of the time
	r := newPointRig(t, pointPolicy())
	h := r.hold(t)
	r.drop(t)
	if why := ended(t, h); why != lockcore.ReasonNotOwned {
		t.Errorf("told %s, want not_owned", why)
	}
	lost := 0
	until(t, "the loss is reported", func() bool { return len(r.of(history.FenceObserved)) == 1 })
	for _, e := range r.of(history.RenewReturn) {
		if e.Outcome != history.OK {
			lost++
		}
	}
	if err := h.Release(t.Context()); err != nil || lost != 1 || len(r.of(history.ReleaseInvoke)) != 0 {
		t.Errorf("%v after %d failed renewals and %d releases, want one and none", err, lost, len(r.of(history.ReleaseInvoke)))
	}
}

func TestPoint05And09OnAnEtcd(t *testing.T) {
	t.Parallel() // it waits, most of the time
	r := newPointRig(t, pointPolicy())
	var stopped int64
	err := r.Do(t.Context(), "k", func(ctx context.Context, h *client.Handle) error {
		r.stop(t)
		<-ctx.Done()
		if err := h.Check(); !errors.Is(err, client.ErrAbandoned) {
			t.Errorf("check: %v, want ErrAbandoned", err)
		}
		r.resume(t)
		<-time.After(100 * time.Millisecond) // work takes its time to stop
		stopped = int64(r.clock.Now().Mono)
		return nil
	})
	if !errors.Is(err, client.ErrAbandoned) {
		t.Errorf("Do: %v, want ErrAbandoned", err)
	}
	fence, abandon := r.of(history.FenceObserved), r.of(history.AbandonKind)
	if len(fence) != 1 || len(abandon) != 1 || fence[0].Span != abandon[0].Span {
		t.Errorf("fence.observed %+v, abandon %+v: want one each, at once", fence, abandon)
	}
	if released := r.of(history.ReleaseInvoke); len(released) == 0 || released[0].From < stopped {
		t.Errorf("released %+v, work stopped at %d: want it afterwards", released, stopped)
	}
	renewed := r.of(history.RenewInvoke)
	if last := renewed[len(renewed)-1]; last.From > fence[0].From {
		t.Error("renewed after it was given up")
	}
}

func TestPoint06And12OnAnEtcd(t *testing.T) {
	t.Parallel() // it waits, most of the time
	p := pointPolicy()
	p.Class, p.RenewEvery, p.TTL, p.StopBudget = lockcore.LegacyWarn, 0, time.Second, 0
	r := newPointRig(t, p)
	h := r.hold(t)
	fence, epoch := h.Fence(), h.Epoch()
	until(t, "the lease ends", func() bool { return r.token(t) == "" })
	r.join(t, pointPolicy())
	theirs := r.hold(t)
	var lost *lockcore.NotOwnedError
	if err := h.Release(t.Context()); !errors.As(err, &lost) || !lost.Other || lost.Holder != theirs.Epoch() {
		t.Errorf("release after the lease's end: %v, want the store's answer: other", err)
	}
	if token := r.token(t); lockcore.Fingerprint(token) != theirs.Epoch() {
		t.Error("the new holder's key was touched")
	}
	if h.Fence() != fence || h.Epoch() != epoch || theirs.Fence() <= fence {
		t.Errorf("fence was %d, is %d, the successor's %d: want it unchanged, and below", fence, h.Fence(), theirs.Fence())
	}
}

func TestPoint07OnAnEtcd(t *testing.T) {
	t.Parallel() // it waits, most of the time
	p := pointPolicy()
	p.RenewEvery = 0
	r := newPointRig(t, p)
	if err := r.hold(t).Release(t.Context()); err != nil { // connections and scripts are there
		t.Fatal(err)
	}
	r.cutter.armed.Store(true)
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

func TestPoint08OnAnEtcd(t *testing.T) {
	t.Parallel() // it waits, most of the time
	p := pointPolicy()
	p.RenewEvery = 0
	r := newPointRig(t, p)
	if err := r.hold(t).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := r.hold(t)
	r.cutter.armed.Store(true)
	if err := h.Release(t.Context()); err != nil {
		t.Errorf("release: %v: it took effect, and the second try could see that", err)
	}
	got := r.of(history.ReleaseReturn)[1:]
	if len(got) != 2 || got[0].Outcome != history.Unknown || got[1].Call.Result != history.ResultAbsent {
		t.Errorf("returns %+v, want unknown, then absent", got)
	}
}

func TestPoint10OnAnEtcd(t *testing.T) {
	t.Parallel() // it waits, most of the time
	p := pointPolicy()
	p.TTL, p.RenewEvery = time.Minute, 20*time.Second
	r := newPointRig(t, p)
	h := r.hold(t)
	r.clock.move(0, 2*time.Minute) // only the wall clock shows it: the store is asked at once
	until(t, "a renewal settles it", func() bool { return len(r.of(history.RenewReturn)) == 1 && h.Check() == nil })
	r.clock.move(2*time.Minute, 2*time.Minute)
	if err := h.Check(); err == nil {
		t.Error("check right after a suspension beyond the TTL says that all is well")
	}
	if why := ended(t, h); why != lockcore.ReasonDeadline {
		t.Errorf("told %s, want deadline", why)
	}
}

func TestPoint11OnAnEtcd(t *testing.T) {
	t.Parallel()               // it waits, most of the time
	const answers = "xxoxoxxx" // of the renewals: of x the reply is lost, o is answered
	p := pointPolicy()
	p.Class, p.MaxFailures, p.TTL, p.StopBudget, p.OpTimeout = lockcore.LegacyCount, 3, time.Hour, 0, time.Second
	r := newPointRig(t, p)
	n := 0
	r.on(func(e history.Event) {
		if e.Kind != history.RenewInvoke {
			return
		}
		if n++; n <= len(answers) {
			r.cutter.reads.Store(true)
			r.cutter.armed.Store(answers[n-1] == 'x')
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

func TestPoint13OnAnEtcd(t *testing.T) {
	t.Parallel() // it waits, most of the time
	r := newPointRig(t, pointPolicy())
	h := r.hold(t)
	if _, err := r.Acquire(t.Context(), "k"); !errors.Is(err, client.ErrReentrant) {
		t.Errorf("second acquire by the same client: %v, want ErrReentrant", err)
	}
	if err := errors.Join(h.Check(), h.Release(t.Context())); err != nil {
		t.Errorf("the first hold: %v", err)
	}
}

func TestPoint14OnAnEtcd(t *testing.T) {
	t.Parallel() // it waits, most of the time
	for name, end := range map[string]func(r *pointRig, h *client.Handle){
		"released":      func(_ *pointRig, h *client.Handle) { _ = h.Release(context.Background()) },
		"left":          func(_ *pointRig, h *client.Handle) { h.Leave() },
		"client closed": func(r *pointRig, _ *client.Handle) { _ = r.Close(context.Background()) },
		"given up": func(r *pointRig, h *client.Handle) {
			_, _ = r.etcd.Delete(context.Background(), "k")
			<-h.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pointPolicy()
			p.RenewEvery = 20 * time.Millisecond
			r := newPointRig(t, p)
			h := r.hold(t)
			until(t, "it is renewed", func() bool { return len(r.of(history.RenewReturn)) >= 3 })
			end(r, h)
			until(t, "nothing is under way", func() bool { return len(r.of(history.RenewReturn)) == len(r.of(history.RenewInvoke)) })
			before := r.cutter.calls.Load()
			<-time.After(400 * time.Millisecond) // twenty intervals
			if after := r.cutter.calls.Load(); after != before {
				t.Errorf("%d calls were made after the end", after-before)
			}
		})
	}
}
