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

// impossible holds the takeovers of loops after kills against what the sum allows at most. Longer than that and than the machine was late is a
// finding: nothing in the lock's timings explains it. Jobs are left out: an offer to a replica that still works on the job, or has died,
// is lost, and no sum knows how often.
func (j *judging) impossible() {
	for _, s := range j.ix.shots {
		for _, t := range s.trials {
			v, plain := takeoverValue(j.ix, t)
			lock := j.ix.exp.Lock(t.e.lock)
			if t.void.IsVoid() || !plain || lock == nil || !lock.Loop() || !s.does.Kills || j.ix.disturbed(t) {
				continue
			}
			b := j.told(lock, forecast.Limit{Name: "max"}, "takeover", t.class, j.warmup)
			if b.Hi > 0 && v.inTime().lo > int64(b.Hi)+j.ix.noise() {
				late := ""
				if v.late > 0 {
					late = ", and " + figures.Ceil(v.late) + " of a late machine"
				}
				j.ix.find(fmt.Sprintf("lock %s: the takeover after %s took %s, longer than the lock's timings allow: %s%s",
					t.e.lock, s.op, v.dur, b.Sum, late), t.evidence...)
			}
		}
	}
}

// disturbed reports that something happened during the trial that the sum does not know of: another shot was in force and may have struck
// who would have come next, nobody was there to come next, or a call at the key had no plain answer. One that timed out costs a poll, one
// that was applied unseen a TTL.
func (ix *Facts) disturbed(t *trial) bool {
	k := ix.keys[t.e.key]
	return !ix.standing(k, t.shot, t.e) || slices.ContainsFunc(ix.shots, func(s *shot) bool {
		return s != t.shot && s.applied != nil && s.applied.From <= t.x.To && s.ended().To >= t.start.From
	}) || slices.ContainsFunc(k.attempts, func(c *call) bool {
		plain := c.outcome == history.OK || c.outcome == history.Fail && c.result == history.ResultHeld
		return !plain && c.span.From <= t.x.To && c.span.To >= t.start.From
	})
}

// noise is what round trips, timers and the store's expiry may add to any figure.
func (ix *Facts) noise() int64 { return 5*ix.cal.RTT99 + ix.cal.Timer99 + ix.cal.Expiry }

// margin is by how much the ends of a band are uncertain: further seeds would move them (by about a width over the root of their number,
// where the ends thin out), and timers and round trips of the machine are what they are.
func (ix *Facts) margin(p history.Predicted) float64 {
	noise := seconds(ix.noise())
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
	return fmt.Sprintf("lock %s: the takeover after %s took %s, %s than any of %d takeovers in %d rehearsals of this file: %s, give or take %s. The lock's rules and timings do not explain it",
		t.Lock, t.Fault, figures.Seconds(t.Lo, t.Hi), how, p.Values, p.Seeds, figures.Seconds(p.Lo, p.Hi), figures.Exact(figures.Nanoseconds(p.Margin)))
}
