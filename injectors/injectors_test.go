package injectors

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// recorded plays a finished history to an injector: what is not in it never comes.
type recorded []history.Event

func (r recorded) await(_ context.Context, from int, match func(history.Event) bool) (history.Event, error) {
	for _, e := range r[min(from, len(r)):] {
		if match(e) {
			return e, nil
		}
	}
	return history.Event{}, context.DeadlineExceeded
}

func (r recorded) past() []history.Event { return r }

func void(err error) string {
	var v *voidError
	if errors.As(err, &v) {
		return v.Void()
	}
	return ""
}

func exit(state string) history.Event {
	return history.Event{Kind: history.ReplicaExit, Span: history.Span{From: 100, To: 105}, Replica: &history.Replica{Incarnation: "r1.1", Exit: state}}
}

func TestKillIsConfirmedOnlyIfTheHolderDiedOfItWhileItHeld(t *testing.T) {
	gaveUp := func(kind history.Kind, at int64) history.Event {
		return history.Event{Kind: kind, Span: history.At(at), Source: "r1.1", Epoch: "e1"}
	}
	shot := history.Event{Epoch: "e1", Fault: &history.Fault{ID: "k", Shot: 1, Kind: "kill", Victim: "r1.1"}}
	applied := history.Span{From: 100, To: 101}
	for _, c := range []struct {
		name   string
		events recorded
		want   string
	}{
		{"killed while it held", recorded{exit("signal: killed")}, ""},
		{"released before", recorded{gaveUp(history.ReleaseInvoke, 99), exit("signal: killed")}, "moved"},
		{"fenced before", recorded{gaveUp(history.FenceObserved, 99), exit("signal: killed")}, "moved"},
		{"ended by itself", recorded{exit("exit status 0")}, "unconfirmed"},
		{"death never seen", recorded{}, "unconfirmed"},
		{"another one died", recorded{{Kind: history.ReplicaExit, Replica: &history.Replica{Incarnation: "r2.1", Exit: "signal: killed"}}}, "unconfirmed"},
	} {
		k := &Kill{Await: c.events.await, Past: c.events.past}
		window, hits, err := k.Confirm(t.Context(), shot, applied)
		if void(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err == nil && (window != history.Span{From: 100, To: 105} || hits != 1) {
			t.Errorf("%s: window %v, hits %d", c.name, window, hits)
		}
	}
}

func TestKillOfADeadProcessIsVoid(t *testing.T) {
	k := &Kill{Signal: func(string, syscall.Signal) (history.Span, error) {
		return history.Span{}, errors.New("no such process")
	}}
	_, err := k.Inject(t.Context(), history.Event{Fault: &history.Fault{Victim: "r1.1"}})
	if void(err) != "moved" {
		t.Errorf("%v, want a void shot", err)
	}
}

func TestBurstIsConfirmedOnlyIfItHitWhatWasAsked(t *testing.T) {
	hit := func(at int64) history.Event {
		return history.Event{Kind: history.FaultHit, Op: "b#1", Span: history.At(at), Fault: &history.Fault{}}
	}
	over := history.Event{Kind: history.FaultReverted, Op: "b#1", Fault: &history.Fault{}}
	other := history.Event{Kind: history.FaultReverted, Op: "b#2", Fault: &history.Fault{}}
	for _, c := range []struct {
		name   string
		want   int64
		events recorded
		hits   int64
		void   string
	}{
		{"all hit", 2, recorded{hit(5), hit(9), over}, 2, ""},
		{"by time, some hit", 0, recorded{hit(5), over}, 1, ""},
		{"by time, none hit", 0, recorded{over}, 0, "unconfirmed"},
		{"too few", 3, recorded{hit(5), hit(9), over}, 2, "unconfirmed"},
		{"no end seen", 2, recorded{hit(5), hit(9), other}, 2, "unconfirmed"},
		{"died meanwhile", 2, recorded{hit(5), exit("signal: killed")}, 1, "moved"},
	} {
		shot := history.Event{Op: "b#1", Fault: &history.Fault{ID: "b", Shot: 1, Kind: "renew_failures", Victim: "r1.1", Want: c.want}}
		r := &RenewFailures{Await: c.events.await}
		window, hits, err := r.Confirm(t.Context(), shot, history.At(1))
		if void(err) != c.void || (err == nil) != (c.void == "") || hits != c.hits {
			t.Errorf("%s: %v with %d hits, want %q with %d", c.name, err, hits, c.void, c.hits)
		}
		if c.name == "all hit" && window != (history.Span{From: 5, To: 9}) {
			t.Errorf("window %v, want first to last hit", window)
		}
	}
}

func TestBurstArmsTheResolvedKeyAndDisarms(t *testing.T) {
	var sent []protocol.Command
	r := &RenewFailures{
		Send:  func(_ string, c protocol.Command) error { sent = append(sent, c); return nil },
		Await: recorded{{Kind: history.FaultReverted, Op: "b#1"}}.await,
		Clock: func() int64 { return 7 },
	}
	shot := history.Event{Op: "b#1", Lock: "job", Key: "k", Fault: &history.Fault{ID: "b", Shot: 1, Victim: "r1.1", Form: "error", Want: 3, Declared: 9}}
	if _, err := r.Inject(t.Context(), shot); err != nil {
		t.Fatal(err)
	}
	if err := r.Revert(t.Context(), shot); err != nil {
		t.Fatal(err)
	}
	want := protocol.Arm{Fault: "b", Shot: 1, Op: "renew", Mode: "error", Lock: "job", Key: "k", Count: 3, For: 9}
	if len(sent) != 2 || *sent[0].Arm != want || *sent[1].Disarm != (protocol.Disarm{Fault: "b", Shot: 1}) {
		t.Errorf("sent %+v", sent)
	}
	r.Await = recorded{}.await
	if err := r.Revert(t.Context(), shot); err == nil {
		t.Error("a burst that nobody says is over was reported as reverted")
	}
	if !slices.ContainsFunc(sent, func(c protocol.Command) bool { return c.Cmd == protocol.CmdDisarm }) {
		t.Error("nothing was disarmed")
	}
}
