package injectors

import (
	"reflect"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

func TestAClockIsConfirmedOnlyIfEveryVictimSawIt(t *testing.T) {
	tell := func(kind history.Kind, who, detail string) history.Event {
		return history.Event{Kind: kind, Source: who, Op: "c#1", Span: history.Span{From: 10, To: 10}, Fault: &history.Fault{Detail: detail}}
	}
	saw := func(who, text string) history.Event { return tell(history.FaultHit, who, "observed offset "+text) }
	dies := history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Incarnation: "r2.1"}}
	for _, c := range []struct {
		name   string
		events recorded
		want   string
	}{
		{"both saw it", recorded{saw("r1.1", "-2s"), saw("r2.1", "-1.999s")}, ""},
		{"one says nothing", recorded{saw("r1.1", "-2s")}, "unconfirmed"},
		{"one sees the right time", recorded{saw("r1.1", "-2s"), saw("r2.1", "0s")}, "unconfirmed"},
		{"one sees the other way", recorded{saw("r1.1", "-2s"), saw("r2.1", "2s")}, "unconfirmed"},
		{"one does not say how far", recorded{saw("r1.1", "-2s"), tell(history.FaultHit, "r2.1", "done")}, "unconfirmed"},
		{"one cannot", recorded{saw("r1.1", "-2s"), tell(history.FaultReverted, "r2.1", "not supported")}, "unconfirmed"},
		{"one died", recorded{saw("r1.1", "-2s"), dies}, "moved"},
	} {
		k := steps(&fault.Clock{Offset: -2 * time.Second}, &Reach{Send: untold, Await: c.events.await, Clock: func() int64 { return 1 }})
		r := undo.Record{Shot: history.Event{Op: "c#1", Fault: &history.Fault{ID: "c", Shot: 1, Victims: []string{"r1.1", "r2.1"}}}}
		_, seen, err := k.Confirm(t.Context(), r, history.At(1))
		if voidOf(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err == nil && (seen.Hits != 2 || seen.Expected != int64(-2*time.Second)) {
			t.Errorf("%s: seen %+v", c.name, seen)
		}
	}
}

func TestAClockIsArmedAndDisarmed(t *testing.T) {
	var sent []protocol.Command
	k := steps(&fault.Clock{Offset: time.Second}, &Reach{
		Send:  func(_ string, c protocol.Command) error { sent = append(sent, c); return nil },
		Await: recorded{{Kind: history.FaultReverted, Op: "c#1", Source: "r1.1"}}.await, Clock: func() int64 { return 1 },
	})
	r := undo.Record{Shot: history.Event{Op: "c#1", Fault: &history.Fault{ID: "c", Shot: 1, Victim: "r1.1", Declared: 9}}}
	if _, err := k.Inject(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Revert(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	want := protocol.Arm{Fault: "c", Shot: 1, Spec: burst.Spec{Op: "clock", Mode: "offset", Delay: time.Second, For: 9}}
	if len(sent) != 2 || !reflect.DeepEqual(*sent[0].Arm, want) || *sent[1].Disarm != (protocol.Disarm{Fault: "c", Shot: 1}) {
		t.Errorf("sent %+v", sent)
	}
	k.Await = recorded{}.await
	if _, err := k.Revert(t.Context(), r); err == nil {
		t.Error("a clock that nobody says is right was reported as reverted")
	}
}
