package fault

import (
	"strings"
	"time"
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

// Measured is what was measured of a shot, in seconds; 0 = it was not.
type Measured struct {
	Baseline, Expected, Observed float64
	Hits, Want                   int64
}

// Words are a kind or a form with its magnitude: "black hole", "latency +200ms downstream".
func Words(kind, configured string) string {
	return strings.TrimSpace(strings.ReplaceAll(kind, "_", " ") + " " + configured)
}
