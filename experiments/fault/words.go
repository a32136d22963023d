package fault

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// Shot is one firing of a fault, as a story tells of it.
type Shot struct {
	Victim     string        // in words, with its pid or its pod
	Key        string        // of the lock that it struck; "" = none
	Holding    bool          // its victim held Key
	Pod        bool          // its victim is known to be in a pod
	Lasts      time.Duration // 0 = an instant, or not bounded by time
	Want       int64         // operations that it was to hit; 0 = bounded by time only
	Configured string        // its magnitude
	KeptData   bool          // the store kept its data, as the file declares
}

// held is " holding KEY", or "".
func (s Shot) held() string {
	if s.Holding {
		return " holding " + s.Key
	}
	return ""
}

// lasting is " for 2s" after whom it struck, or "".
func (s Shot) lasting() string {
	if s.Lasts <= 0 {
		return ""
	}
	if s.Holding {
		return ", for " + figures.Short(int64(s.Lasts))
	}
	return " for " + figures.Short(int64(s.Lasts))
}

// on is whom it struck, and for how long.
func (s Shot) on() string { return " on " + s.Victim + s.held() + s.lasting() }

// Measured is what was measured of a shot, in seconds; 0 = it was not.
type Measured struct {
	Baseline, Expected, Observed float64
	Hits, Want                   int64
}

// as is what was observed, and what was expected.
func (m Measured) as(what string) string {
	if m.Observed == 0 {
		return ""
	}
	text := what + " " + roughly(m.Observed)
	if m.Expected != 0 {
		text += ", " + roughly(m.Expected) + " expected"
	}
	return text
}

// onWay is what a connection of our own saw on the way: before the fault, and under it.
func (m Measured) onWay(what string) string {
	if m.Baseline == 0 && m.Observed == 0 && m.Expected == 0 {
		return ""
	}
	expected, observed := "at least "+roughly(m.Expected)+" expected", roughly(m.Observed)+" observed"
	if m.Expected == 0 {
		expected = "no answer expected"
	}
	if m.Observed == 0 {
		observed = "no answer observed"
	}
	return fmt.Sprintf("%s %s before, %s, %s", cmp.Or(what, "round trip"), roughly(m.Baseline), expected, observed)
}

func roughly(seconds float64) string { return figures.Short(figures.Nanoseconds(seconds)) }

// Words are a kind or a form with its magnitude: "black hole", "latency +200ms downstream".
func Words(kind, configured string) string {
	return strings.TrimSpace(strings.ReplaceAll(kind, "_", " ") + " " + configured)
}
