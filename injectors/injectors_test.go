package injectors

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
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

func voidOf(err error) string {
	var v *voidError
	if errors.As(err, &v) {
		return string(v.Void())
	}
	return ""
}

func exit(state string) history.Event {
	return history.Event{Kind: history.ReplicaExit, Span: history.Span{From: 100, To: 105}, Replica: &history.Replica{Incarnation: "r1.1", Exit: state}}
}

func unsent(string, syscall.Signal) (history.Span, error) { return history.Span{}, nil }

// at is a shot whose victim nobody has looked for: what is known of it is what was recorded.
func (r *Reach) at(f fault.Spec, shot history.Event) *Hit {
	h, err := r.begin(f, shot)
	if err != nil {
		panic(err)
	}
	return h
}

func TestKillIsConfirmedOnlyIfTheHolderDiedOfItWhileItHeld(t *testing.T) {
	gaveUp := func(kind history.Kind, at int64) history.Event {
		return history.Event{Kind: kind, Span: history.At(at), Source: "r1.1", Epoch: "e1"}
	}
	shot := history.Event{Epoch: "e1", Fault: &history.Fault{ID: "k", Shot: 1, Kind: "kill", Victim: "r1.1", Anchor: 90}}
	applied := history.Span{From: 100, To: 101}
	for _, c := range []struct {
		name   string
		events recorded
		want   string
	}{
		{"killed while it held", recorded{exit("signal: killed")}, ""},
		{"released before", recorded{gaveUp(history.ReleaseInvoke, 99), exit("signal: killed")}, "moved"},
		{"fenced before", recorded{gaveUp(history.FenceObserved, 99), exit("signal: killed")}, "moved"},
		{"renewed before the last moment", recorded{gaveUp(history.RenewInvoke, 80), exit("signal: killed")}, ""},
		{"renewed first", recorded{gaveUp(history.RenewInvoke, 99), exit("signal: killed")}, "moved"},
		{"renews too late", recorded{gaveUp(history.RenewInvoke, 102), exit("signal: killed")}, ""},
		{"ended by itself", recorded{exit("exit status 0")}, "unconfirmed"},
		{"death never seen", recorded{}, "unconfirmed"},
		{"another one died", recorded{{Kind: history.ReplicaExit, Replica: &history.Replica{Incarnation: "r2.1", Exit: "signal: killed"}}}, "unconfirmed"},
	} {
		k := (&Reach{Signal: unsent, Await: c.events.await, Past: c.events.past}).at(&fault.Kill{}, shot)
		window, seen, err := k.Confirm(t.Context(), applied)
		if voidOf(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err == nil && (window != history.Span{From: 100, To: 105} || seen.Hits != 1) {
			t.Errorf("%s: window %v, hits %d", c.name, window, seen.Hits)
		}
	}
}
