package forecast

import (
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
)

// under is the band of takeovers from faults of this class. A kill leaves the rest of a lease; a deleted key or an empty store leaves
// none; and while a fault keeps everybody from the store, nobody can take over.
func (b band) under(faults []experiments.Fault, class string) band {
	if class == verdict.ClassCrash {
		return b
	}
	var barred time.Duration // for so long nobody gets the key
	leased := class == verdict.ClassPause || class == verdict.ClassHandOver && b.lock.Policy.Release.Mode == lockcore.ReleaseNone
	for i := range faults {
		f := &faults[i]
		if ClassOf(f.Kind(), f.Form()) != class {
			continue
		}
		switch {
		case f.Store != nil:
			barred = max(barred, f.For)
			leased = leased || f.Store.Do != experiments.StoreFlush // what was kept, or replicated, is still leased
		case f.DeleteKey != nil && f.DeleteKey.To != "", f.Aim().All && f.RenewFailures == nil && outlasts(f, b.lock.Policy.Acquire.Timeout):
			barred = max(barred, f.For)
		}
	}
	b.struck = map[string]string{verdict.ClassHandOver: "asked to stop", verdict.ClassPause: "hit at random", verdict.ClassTheft: "the key taken away", verdict.ClassStore: "the store gone"}[class]
	isLease := func(t term) bool { return t.name == "ttl" || t.name == "renewal" || t.name == "in flight" }
	var lease time.Duration
	for _, t := range b.upper {
		if isLease(t) {
			lease += t.value
		}
	}
	if leased && barred <= lease {
		if class == verdict.ClassStore {
			b.lo, b.lower = 0, nil
		}
		return b
	}
	b.upper = slices.DeleteFunc(slices.Clone(b.upper), isLease)
	if barred > 0 {
		b.upper = append([]term{{"fault", barred}}, b.upper...)
	}
	if !leased || class == verdict.ClassStore {
		b.lo, b.lower = 0, nil
	}
	b.hi = 0
	for _, t := range b.upper {
		b.hi += t.value
	}
	return b
}

// outlasts reports a fault of a replica or its way under which no call is answered within limit: a mild one keeps nobody away.
func outlasts(f *experiments.Fault, limit time.Duration) bool {
	delay := func(d time.Duration, s experiments.Stream) bool {
		if s == experiments.StreamBoth {
			d *= 2
		}
		return d >= limit
	}
	switch {
	case f.Latency != nil:
		return delay(f.Latency.Add+f.Latency.Jitter, f.Latency.Stream)
	case f.Jitter != nil:
		return delay(2*f.Jitter.By, f.Jitter.Stream)
	case f.Bandwidth != nil: // a call is less than a kB
		return delay(time.Second/time.Duration(max(1, f.Bandwidth.Rate)), f.Bandwidth.Stream)
	}
	return f.SlowClose == nil
}
