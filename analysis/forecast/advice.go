package forecast

import (
	"fmt"
	"math"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// advice names a TTL and a pickup period with which the whole band would lie under the limit, or the limit above the band, in the
// numbers of the file: what was measured at a time scale cannot be typed there. Neither is at the very edge: before a run nobody knows
// how long the warm-up takes, which is a part of every takeover.
func (b band) advice(l *experiments.Limit, scale float64) string {
	raise := fmt.Sprintf("%s %s %s", verdict.MeasureWords(l.Measure), l.Bound(), figures.Exact(roundUp(Unscaled(int64(b.hi), scale)+1)))
	rest, weight, period, leased := l.At, 0.0, "poll", false
	p := b.lock.Policy
	for _, t := range b.upper {
		switch t.part {
		case ttl:
			leased = true
		case renewal: // only takes off
		case poll:
			weight += 1 + p.Loop.Jitter
		case redeliver:
			weight, period = weight+1, "redeliver"
			if b.untold == retry {
				period = "retry"
			}
		default:
			rest -= int64(t.value)
		}
	}
	rest = Unscaled(rest, scale) - 1
	if !leased { // no lease to run out: there is nothing to shorten
		return inFile(scale) + "promise " + raise + "."
	}
	unit := easyUnit(rest)
	short := rest * 4 / 5 / unit * unit
	wait := int64(float64(rest-short)/weight) / unit * unit
	if least := Unscaled(int64(p.Drift+p.StopBudget), scale); wait < int64(time.Millisecond) || short <= least {
		return inFile(scale) + "shorten the timeouts, which leave no room within " + figures.Exact(Unscaled(l.At, scale)) + ", or promise " + raise + "."
	}
	sum := "ttl + " + period
	if weight != 1 { // a jittered poll, or one on either side of the fault
		sum = fmt.Sprintf("ttl + %.4g x %s", weight, period)
	}
	beside := ""
	if p.RenewEvery > 0 {
		beside = " (and renew_every below the ttl)"
	}
	return fmt.Sprintf("%skeep %s at most %s, e.g. ttl %s and %s %s%s, or promise %s.",
		inFile(scale), sum, figures.Exact(rest/unit*unit), figures.Exact(short), period, figures.Exact(wait), beside, raise)
}

// inFile says whose times follow: those of the file, which the figures of a scaled run are not.
func inFile(scale float64) string {
	if scale == 1 || scale == 0 {
		return "In the file, "
	}
	return fmt.Sprintf("In the file, whose times are not scaled by %g yet, ", scale)
}

// roundUp gives a limit that is easy to type and not below ns.
func roundUp(ns int64) int64 {
	unit := easyUnit(ns)
	return (ns + unit - 1) / unit * unit
}

// easyUnit is a power of ten from 1 ms to 1 s, of which ns has ten or more, if it can.
func easyUnit(ns int64) int64 {
	unit := int64(time.Second)
	for unit > int64(time.Millisecond) && ns < 10*unit {
		unit /= 10
	}
	return unit
}

// Unscaled turns a scaled duration back into the one of the file, to the microsecond: scaling had rounded it.
func Unscaled(ns int64, scale float64) int64 {
	return int64(math.Round(float64(ns)/scale/1e3)) * 1e3
}
