package injectors

import (
	"testing"
	"time"
)

// Whatever a way took before the fault, no slower than that shows no fault; and a fault that is added to it does show.
func TestATrialOnASlowWayNeedsMoreThanBefore(t *testing.T) {
	ms := time.Millisecond
	for _, least := range []time.Duration{ms, 10 * ms, 200 * ms} {
		for _, base := range []time.Duration{0, ms / 10, 5 * ms, 20 * ms, 75 * ms, time.Second} {
			need := trial{least: least}.need(base)
			if need <= base {
				t.Errorf("a fault of %s on a way of %s is confirmed by %s", least, base, need)
			}
			if base <= 5*least && need > base+least {
				t.Errorf("a fault of %s on a way of %s needs %s", least, base, need)
			}
		}
	}
}
