package injectors

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// asked is a process that is asked to end: how it ends at which signal, and what was sent.
type asked struct {
	sent []syscall.Signal
	ends map[syscall.Signal]history.Event
	past recorded
}

func (a *asked) signal(_ string, sig syscall.Signal) (history.Span, error) {
	if len(a.past) > 0 && a.past[len(a.past)-1].Kind == history.ReplicaExit {
		return history.At(100), errors.New("it is dead")
	}
	a.sent = append(a.sent, sig)
	if e, ok := a.ends[sig]; ok {
		a.past = append(a.past, e)
	}
	return history.Span{From: 100, To: 101}, nil
}

func (a *asked) await(ctx context.Context, from int, match func(history.Event) bool) (history.Event, error) {
	return a.past.await(ctx, from, match)
}

func TestAProcessThatIsAskedToEndIsKilledWhenItsGraceIsOver(t *testing.T) {
	at := func(how string, from, to int64) history.Event {
		return history.Event{Kind: history.ReplicaExit, Span: history.Span{From: from, To: to}, Replica: &history.Replica{Incarnation: "r1.1", Exit: how, By: history.ByKernel}}
	}
	released := history.Event{Kind: history.ReleaseInvoke, Span: history.At(99), Source: "r1.1", Epoch: "e1"}
	later := released
	later.Span = history.At(150)
	for name, c := range map[string]struct {
		a    asked
		want string // void
		sent []syscall.Signal
		end  history.Span
	}{
		"it listens":             {asked{ends: map[syscall.Signal]history.Event{syscall.SIGTERM: at("gone", 200, 205)}}, "", []syscall.Signal{syscall.SIGTERM}, history.Span{From: 200, To: 205}},
		"it gives back first":    {asked{past: recorded{later}, ends: map[syscall.Signal]history.Event{syscall.SIGTERM: at("gone", 140, 205)}}, "", []syscall.Signal{syscall.SIGTERM}, history.Span{From: 150, To: 205}},
		"it does not listen":     {asked{ends: map[syscall.Signal]history.Event{syscall.SIGKILL: at("signal: killed", 900, 901)}}, "", []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}, history.Span{From: 900, To: 901}},
		"it outlives everything": {asked{}, "unconfirmed", []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}, history.Span{}},
		"it gave the lock back":  {asked{past: recorded{released}, ends: map[syscall.Signal]history.Event{syscall.SIGTERM: at("gone", 200, 205)}}, "moved", []syscall.Signal{syscall.SIGTERM}, history.Span{}},
		"it had ended by itself": {asked{ends: map[syscall.Signal]history.Event{syscall.SIGTERM: at("gone", 80, 85)}}, "unconfirmed", []syscall.Signal{syscall.SIGTERM}, history.Span{}},
		"it was dead already":    {asked{past: recorded{at("gone", 80, 85)}}, "moved", nil, history.Span{}},
	} {
		k := (&Reach{Signal: c.a.signal, Grace: time.Second, Await: c.a.await, Past: func() []history.Event { return c.a.past }, Clock: func() int64 { return 100 }}).
			at(&fault.Kill{How: fault.Graceful}, history.Event{Epoch: "e1", Fault: &history.Fault{Kind: "kill", Form: fault.Graceful, Victim: "r1.1"}})
		span, err := k.Inject(t.Context())
		var seen history.Fault
		if err == nil {
			_, seen, err = k.Confirm(t.Context(), span)
		}
		if voidOf(err) != c.want || (err == nil) != (c.want == "") || !slices.Equal(c.a.sent, c.sent) {
			t.Errorf("%s: %v, want %q; sent %v, want %v", name, err, c.want, c.a.sent, c.sent)
		}
		if d := seen.Death; err == nil && (d == nil || d.End == nil || *d.End != c.end || d.Sign != c.end.From || d.Call != span || d.Means != history.MeansSignal || d.By != history.ByKernel) {
			t.Errorf("%s: death %+v, want the end %v", name, d, c.end)
		}
	}
}
