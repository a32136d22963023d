package forecast

import (
	"regexp"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

var example = regexp.MustCompile(`^In the file, (?:whose times are not scaled by \S+ yet, )?keep .* at most \S+, e\.g\. ttl (\S+) and (poll|redeliver) (\S+?)(?: \(and renew_every below the ttl\))?, or promise (takeover|tick gap) max (\S+)\.$`)

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The advice holds when it is followed in the file, at every time scale: its example brings the whole band within the limit, and
// so does its limit.
func TestAdviceHolds(t *testing.T) {
	s := time.Second
	try := lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 2 * s}
	hold := lockcore.Policy{TTL: 60 * s, OpTimeout: 2 * s, Acquire: try, Loop: &lockcore.Loop{Poll: 30 * s, Mode: lockcore.LoopTTLHold}}
	renewed := lockcore.Policy{TTL: 60 * s, RenewEvery: 1 * s, OpTimeout: 1 * s, Acquire: try, Loop: &lockcore.Loop{Poll: 30 * s, Jitter: 0.2, Mode: lockcore.LoopRenewed}}
	job := lockcore.Policy{TTL: 60 * s, RenewEvery: 1 * s, OpTimeout: 2 * s, Acquire: try}
	for name, p := range map[string]lockcore.Policy{"ttl_hold": hold, "renewed": renewed, "job": job} {
		for _, scale := range []float64{1, 0.5, 0.05, 0.013} {
			for _, measure := range []string{"takeover", "tick_gap"} {
				for _, max := range []time.Duration{12 * s, 30 * s, 33333 * time.Millisecond, 50 * s} {
					if measure == "tick_gap" && p.Loop == nil {
						continue
					}
					try := adviceCase{drill(p, fault.RandomPhase), measure, scale, max}
					try.follow(t, name)
				}
			}
		}
	}
}

type adviceCase struct {
	e       *experiments.Experiment
	measure string
	scale   float64
	max     time.Duration
}

const testWarmup = 3500 * time.Microsecond

// band of the file at the case's scale.
func (c adviceCase) band(e *experiments.Experiment) (*experiments.Experiment, band) {
	at := *e
	at.TimeScale = c.scale
	scaled := experiments.Scale(&at)
	l := &scaled.System.Locks[0]
	if c.measure == "tick_gap" {
		return scaled, tickBand(scaled, l, testWarmup)
	}
	return scaled, bandOf(scaled, l, testWarmup)
}

func (c adviceCase) follow(t *testing.T, name string) {
	t.Helper()
	scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d)*c.scale + 0.5) }
	_, b := c.band(c.e)
	text := b.advice(&experiments.Limit{Measure: c.measure, Trials: true, At: int64(scaled(c.max))}, c.scale)
	m := example.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s, %s <= %s at %g: %q", name, c.measure, c.max, c.scale, text)
	}
	if least := scaled(duration(t, m[5])); least < b.hi {
		t.Errorf("%s at %g: %q: the limit is %s, the band ends at %s", name, c.scale, text, least, b.hi)
	}
	e := experiments.Scale(c.e) // a copy
	e.Scaled = 0
	e.System.Locks[0].Policy.TTL = duration(t, m[1])
	if m[2] == "poll" {
		e.System.Locks[0].Policy.Loop.Poll = duration(t, m[3])
	} else {
		e.System.Work[0].Redeliver = duration(t, m[3])
	}
	if _, after := c.band(e); after.hi > scaled(c.max) {
		t.Errorf("%s at %g: %q followed gives a band up to %s, the limit is %s", name, c.scale, text, after.hi, scaled(c.max))
	}
}
