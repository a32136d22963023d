package client

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The heap gives out what is due and nothing else, and knows the earliest deadline: as a plain map does, over random changes.
func TestDeadlinesAreAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, span := range []time.Duration{crowdPause, 50 * crowdPause, 5000 * crowdPause} { // of the deadlines: many at once, and few
		handles := make([]*Handle, 300)
		for i := range handles {
			handles[i] = &Handle{}
		}
		d, model := deadlines{}, map[*Handle]time.Duration{}
		now := time.Duration(rng.Int64N(int64(time.Hour)))
		for range 20_000 {
			h := handles[rng.IntN(len(handles))]
			switch op := rng.IntN(20); {
			case op < 12:
				at := now + time.Duration(rng.Int64N(int64(span))) - span/10
				d.set(h, at)
				model[h] = at
			case op < 16:
				d.remove(h)
				delete(model, h)
			case op < 19:
				now += time.Duration(rng.Int64N(int64(span) / 50))
				wantTaken(t, d.take(now, false, nil), model, func(at time.Duration) bool { return at <= now })
			case rng.IntN(50) == 0:
				wantTaken(t, d.take(now, true, nil), model, func(time.Duration) bool { return true })
			}
			at, ok := d.first()
			if ok != (len(model) > 0) || ok && at != slices.Min(slices.Collect(maps.Values(model))) || len(d) != len(model) {
				t.Fatalf("the first of %d is %s, %v; the map has %d", len(d), at, ok, len(model))
			}
		}
	}
}

// wantTaken holds what was taken against the model, and takes it from there too.
func wantTaken(t *testing.T, got []*Handle, model map[*Handle]time.Duration, due func(time.Duration) bool) {
	t.Helper()
	for _, h := range got {
		at, known := model[h]
		if !known || !due(at) {
			t.Fatalf("took one that is due at %s (there at all: %v)", at, known)
		}
		delete(model, h)
	}
	for _, at := range model {
		if due(at) {
			t.Fatalf("left one that is due at %s", at)
		}
	}
}

// Deadlines before the clock's beginning are due, and in order.
func TestDeadlinesBeforeTheBeginning(t *testing.T) {
	d := deadlines{}
	early, late := &Handle{}, &Handle{}
	d.set(late, time.Microsecond)
	d.set(early, -time.Hour)
	if at, ok := d.first(); !ok || at != -time.Hour {
		t.Errorf("the first is %s, %v", at, ok)
	}
	if got := d.take(0, false, nil); len(got) != 1 || got[0] != early {
		t.Errorf("took %d at 0, want the early one", len(got))
	}
}
