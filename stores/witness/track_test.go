package witness

import (
	"fmt"
	"math/rand/v2"
	"strings"
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

// A value that is a name names another life of it once that life has surely extended the lease: the first extension after both lived is told
// with the whole stretch in which the other may have done it. What is no name stays whose it was.
func TestAnotherLifeGoesOnWithTheLeaseOfItsName(t *testing.T) {
	const name, token = true, false
	for _, c := range []struct {
		isName bool
		born   int64 // when the next life was there
		want   string
	}{
		{name, 15, "r1.1 r1.1 r1.2[20,20] r1.2[30,30]"},
		{name, 25, "r1.1 r1.1 r1.1[20,20] r1.2[20,20]"}, // the first extension may have been by the one before
		{name, 45, "r1.1 r1.1 r1.1[20,20] r1.1[30,30]"},
		{token, 15, "r1.1 r1.1 r1.1[20,20] r1.1[30,30]"},
	} {
		now, got := int64(0), []string{}
		names := Names{
			Holder: func(Unclaimed) Named {
				if now >= c.born*1e9 {
					return Named{Holder: "r1.2", By: "value", Name: c.isName}
				}
				return Named{Holder: "r1.1", By: "value", Name: c.isName}
			},
			Began: func(string) int64 { return c.born * 1e9 },
		}
		w := &Track{Lock: "l", Key: "k"}
		for i, left := range []int64{100, 90, 99, 99} { // of which the last two are extensions
			now = int64(i+1) * 10e9
			for _, e := range w.See(nil, SourceKeys, &names, State{Value: "n", Epoch: "n", Left: left * 1e9}, Sight{Span: history.At(now), Final: i == 1}) {
				said := e.Look.Holder
				if i > 1 && e.Look.Prev != nil {
					said += fmt.Sprintf("[%d,%d]", e.Look.Prev.From/1e9, e.Look.Prev.To/1e9)
				}
				got = append(got, said)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("name %v, born at %d: %s, want %s", c.isName, c.born, got, c.want)
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
