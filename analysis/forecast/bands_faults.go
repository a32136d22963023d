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
		t := f.Traits()
		if t.Class != class {
			continue
		}
		switch {
		case t.AtStore:
			barred = max(barred, f.For)
			leased = leased || !t.Empties // what was kept, or replicated, is still leased
		case t.Plants, f.Aim().All && t.Fails == "" && outlasts(f, b.lock.Policy.Acquire.Timeout):
			barred = max(barred, f.For)
		}
	}
	b.struck = map[string]string{verdict.ClassHandOver: "asked to stop", verdict.ClassPause: "hit at random", verdict.ClassTheft: "the key is taken away", verdict.ClassStore: "the store is gone"}[class]
	isLease := func(t term) bool { return t.name == "ttl" || t.name == "renewal" || t.name == "in flight" }
	rest := slices.DeleteFunc(slices.Clone(b.upper), isLease)
	if leased && barred <= sumOf(b.upper)-sumOf(rest) {
		if class == verdict.ClassStore {
			b.lo, b.lower = 0, nil
		}
		return b
	}
	b.upper = rest
	if barred > 0 {
		b.upper = append([]term{{"fault", barred}}, b.upper...)
	}
	if !leased || class == verdict.ClassStore {
		b.lo, b.lower = 0, nil
	}
	b.hi = sumOf(b.upper)
	return b
}

// outlasts reports a fault of a replica or its way under which no call may be answered within limit: a mild one keeps nobody away.
func outlasts(f *experiments.Fault, limit time.Duration) bool {
	w, net := f.Wire()
	return !net || w.Outlasts(limit)
}
