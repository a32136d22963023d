package lockcore

import (
	"testing"
	"time"
)

// A waiter in line asks again when it is woken, or when the longest pause or what the store owes is over, whichever is first; one
// whose store has no line backs off as usual.
func TestWakeEndsAPause(t *testing.T) {
	p := Policy{
		TTL: time.Minute, Class: LegacyWarn, Release: Release{Mode: ReleaseNone},
		Acquire: Acquire{Mode: AcquireWait, Timeout: time.Second, Budget: time.Hour,
			Backoff: Backoff{Mode: BackoffWake, Every: 10 * time.Millisecond, Cap: 5 * time.Second}},
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		inLine bool
		ptl    time.Duration
		want   time.Duration
	}{
		"in line":                   {true, time.Hour, 5 * time.Second},
		"in line, key soon free":    {true, 2 * time.Second, 2 * time.Second},
		"in line, key never free":   {true, -1, 5 * time.Second},
		"the store has no line":     {false, time.Hour, 10 * time.Millisecond},
		"no line, key free at once": {false, 0, time.Millisecond},
	} {
		m := NewMachine(p)
		m.Step(Instant{}, Input{Kind: Start}, nil)
		m.Step(Instant{}, Input{Kind: Reply, Call: 1, Result: Held, PTTL: c.ptl, InLine: c.inLine}, nil)
		if at, ok := m.Next(); !ok || at != c.want {
			t.Errorf("%s: asks again at %s, %v; want %s", name, at, ok, c.want)
		}
		now := Instant{Mono: 100 * time.Microsecond}
		out := m.Step(now, Input{Kind: Wake}, nil)
		if len(out) != 1 || out[0].Kind != ActDo || out[0].Call.Op != OpAcquire {
			t.Errorf("%s: woken, it does %+v; want an acquire", name, out)
		}
		if out := m.Step(now, Input{Kind: Wake}, nil); len(out) != 0 {
			t.Errorf("%s: woken while it asks already, it does %+v", name, out)
		}
	}
}

// One reading of the clocks may serve many machines, so a step may come with one that is older than the machine's last: it counts as
// that, and no time is given back.
func TestOlderReadingCountsAsTheLast(t *testing.T) {
	p := Policy{
		TTL: 10 * time.Second, RenewEvery: 3 * time.Second, OpTimeout: time.Second, Class: Standard, Release: Release{Mode: ReleaseNone},
		Acquire: Acquire{Mode: AcquireTry, Timeout: time.Second},
	}
	at := func(d time.Duration) Instant { return Instant{Mono: d, Wall: d, Boot: d} }
	m := NewMachine(p)
	m.Step(at(0), Input{Kind: Start}, nil)
	m.Step(at(0), Input{Kind: Reply, Call: 1, Result: OK, Fence: 1}, nil)
	if out := m.Step(at(3*time.Second), Input{Kind: Tick}, nil); len(out) != 1 || out[0].Call.Op != OpRenew {
		t.Fatalf("at 3s it does %+v, want a renewal", out)
	}
	m.Step(at(10*time.Second-1), Input{Kind: Tick}, nil)
	m.Step(at(9*time.Second), Input{Kind: Reply, Call: 2, Result: Failed}, nil)
	if m.last != at(10*time.Second-1) {
		t.Errorf("after a step at 9s it is %s, want the last reading", m.last.Mono)
	}
	if out := m.Step(at(10*time.Second), Input{Kind: Tick}, nil); len(out) != 1 || out[0].Kind != ActFence {
		t.Errorf("at the validity end it does %+v, want a fence", out)
	}
}
