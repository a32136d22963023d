package injectors

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
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
		k := (&Reach{Send: untold, Await: c.events.await, Clock: func() int64 { return 1 }}).at(&fault.Clock{Offset: -2 * time.Second},
			history.Event{Op: "c#1", Fault: &history.Fault{ID: "c", Shot: 1, Victims: []string{"r1.1", "r2.1"}}})
		_, seen, err := k.Confirm(t.Context(), history.At(1))
		if voidOf(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err == nil && (seen.Hits != 2 || seen.Expected != int64(-2*time.Second)) {
			t.Errorf("%s: seen %+v", c.name, seen)
		}
	}
}
