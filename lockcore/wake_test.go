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
