package analysis

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// predicted holds the takeovers of the run against what its rehearsals gave. Each value that lies surely outside is a finding: the
// run did something that neither the lock's rules nor the simulated world explain.
func (ix *Facts) predicted(takeovers []verdict.Takeover) []verdict.Predicted {
	out := []verdict.Predicted{}
	if ix.prediction == nil {
		return out
	}
	body := ix.prediction.Prediction
	for _, p := range body.Takeovers {
		b := verdict.Predicted{Lock: p.Lock, Class: p.Class, Seeds: body.Seeds, Values: p.Values,
			Lo: seconds(p.Lo), P50: seconds(p.P50), P95: seconds(p.P95), Margin: ix.margin(p)}
		if p.Hi != nil {
			hi := seconds(*p.Hi)
			b.Hi = &hi
		}
		for i := range takeovers {
			if t := &takeovers[i]; t.Lock == p.Lock && t.Class == p.Class && t.Fault != "" && excludes(&b, t, ix.offSeconds(t.Lateness)) {
				b.Outside++
				ix.find(outsideFinding(&b, t), append([]int64{ix.prediction.N}, t.Evidence...)...)
			}
		}
		out = append(out, b)
	}
	return out
}

// impossible holds the takeovers of the run against what the sum allows at most. Longer than that and than the machine was late is a
// finding: nothing in the lock's timings explains it.
func (j *judging) impossible() {
	for _, s := range j.ix.shots {
		for _, t := range s.trials {
			v, plain := takeoverValue(t)
			lock := j.ix.exp.Lock(t.e.lock)
			if t.void.IsVoid() || !plain || lock == nil || j.ix.disturbed(t) {
				continue
			}
			b := j.told(lock, forecast.Limit{Name: "max"}, "takeover", t.class, j.warmup)
			off := j.ix.off(v.late)
			if b.Hi > 0 && v.lo-off > int64(b.Hi) {
				late := ""
				if off > 0 {
					late = ", and " + figures.Ceil(off) + " of a late machine"
				}
				j.ix.find(fmt.Sprintf("lock %s: the takeover after %s took %s, longer than is possible: %s%s. Something happened that the lock's timings do not explain",
					t.e.lock, s.op, v.dur, b.Sum, late), t.evidence...)
			}
		}
	}
}

// disturbed reports that another shot was in force during the trial: it may have struck who would have come next, and the sum knows of one.
func (ix *Facts) disturbed(t *trial) bool {
	return slices.ContainsFunc(ix.shots, func(s *shot) bool {
		return s != t.shot && s.effective() && s.applied.From <= t.x.To && s.ended().To >= t.start.From
	})
}

// margin is by how much the ends of a band are uncertain: further seeds would move them (by about a width over the root of their number,
// where the ends thin out), and timers and round trips of the machine are what they are.
func (ix *Facts) margin(p history.Predicted) float64 {
	noise := seconds(5*ix.cal.RTT99 + ix.cal.Timer99 + ix.cal.Expiry)
	width := seconds(p.P95 - p.Lo)
	if p.Hi != nil {
		width = seconds(*p.Hi - p.Lo)
	}
	return noise + width/math.Sqrt(float64(max(p.Values, 1)))
}

// excludes reports that t lies surely outside, whatever a late machine has made of it. A takeover that was not seen to end is surely too long once what was seen of it is.
func excludes(p *verdict.Predicted, t *verdict.Takeover, late float64) bool {
	return p.Hi != nil && t.Lo-late > *p.Hi+p.Margin || !t.Censored && t.Hi != nil && *t.Hi < p.Lo-p.Margin
}

func outsideFinding(p *verdict.Predicted, t *verdict.Takeover) string {
	how := "longer"
	if t.Lo < p.Lo {
		how = "shorter"
	}
	return fmt.Sprintf("lock %s: the takeover after %s took %s, %s than any of %d takeovers in %d rehearsals of this file: %s, give or take %s. Something happened that the lock's rules and timings do not explain",
		t.Lock, t.Fault, figures.Seconds(t.Lo, t.Hi), how, p.Values, p.Seeds, figures.Seconds(p.Lo, p.Hi), figures.Exact(figures.Nanoseconds(p.Margin)))
}
