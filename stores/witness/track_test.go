package witness

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// Truth against told, for looks as for watches: each event's bracket has the instant at which its state began, an epoch that was seen is
// told once, and a name that is known stays that of its epoch.
func TestTrackTellsWhatBegan(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 2_000 {
		w, byWatch := &Track{Lock: "l", Key: "k"}, r.IntN(2) == 0
		asks := map[string]int{} // by value: who asks again gets another answer
		names := Names{Holder: func(u Unclaimed) Named {
			asks[u.Value]++
			return Named{Holder: fmt.Sprint(u.Value, " ", asks[u.Value])}
		}}
		now, began, s := int64(1), int64(0), State{Left: Absent}
		toldOf := ""     // the epoch of the last event
		goOn := func() { // things change while a look is under way, too
			if now += int64(r.IntN(5)); r.IntN(4) > 0 {
				return
			}
			if began = now; s.Left != Absent {
				s = State{Left: Absent}
			} else {
				s = State{Value: fmt.Sprint(now), Epoch: fmt.Sprint(now), Left: Endless}
			}
			now++
		}
		for range 50 {
			goOn()
			asked := now
			goOn()
			s, began := s, began // as the look sees it
			goOn()
			at := Sight{Span: history.Span{From: asked, To: now}}
			if byWatch {
				at.From = min(w.At.From, asked)
				at.Told = &Told{News: s.Epoch != w.Last.Epoch, Prev: w.At, Direct: true}
			}
			first := !w.Seen
			events := w.See(nil, SourceKeys, &names, s, at)
			if len(events) != 0 != (s.Epoch != toldOf) {
				t.Fatalf("%+v gave %d events after one of %q", s, len(events), toldOf)
			}
			for _, e := range events {
				toldOf = e.Epoch
				if e.Look.Prev != nil {
					if from := e.Look.Prev.From; from > began {
						t.Fatalf("the bracket [%d, %d] has not the beginning, %d", from, e.To, began)
					}
				} else if !first {
					t.Fatal("an event says nothing of the state before")
				}
				if e.To < began || e.Look.Direct != byWatch && !first || e.Look.Present != (s.Left != Absent) || e.Look.Present && e.Look.Holder != s.Value+" 1" || e.Look.Named != "" {
					t.Fatalf("%+v %+v of %+v, which began at %d", e, e.Look, s, began)
				}
			}
		}
	}
}

// A key without a value is held by somebody, and once it is gone it is nobody's.
func TestAnEmptyValueIsSomebodys(t *testing.T) {
	w, epochs := &Track{}, []string{}
	for i, s := range []State{{Left: Absent}, {Left: 5 * int64(time.Millisecond)}, {Left: 4 * int64(time.Millisecond)}, {Left: Absent}} {
		for _, e := range w.See(nil, SourceKeys, &Names{}, w.OfToken(s), Sight{Span: history.At(int64(i))}) {
			epochs = append(epochs, e.Epoch)
		}
	}
	if got := fmt.Sprintf("%q", epochs); got != `["unknown" ""]` {
		t.Errorf("its epochs: %s", got)
	}
}
