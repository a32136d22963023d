package facts

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Predicted holds the takeovers of the run against what its rehearsals gave. Each value that lies surely outside is a finding: the
// run did something that neither the lock's rules nor the simulated world explain.
func (ix *Facts) Predicted(takeovers []verdict.Takeover) (out []verdict.Predicted, fs []verdict.Finding) {
	out = []verdict.Predicted{}
	if ix.prediction == nil {
		return out, nil
	}
	body := ix.prediction.Prediction
	for _, p := range body.Takeovers {
		b := verdict.Predicted{Lock: p.Lock, Class: p.Class, Seeds: body.Seeds, Values: p.Values,
			Lo: Seconds(p.Lo), P50: Seconds(p.P50), P95: Seconds(p.P95), Margin: ix.margin(p)}
		if p.Hi != nil {
			b.Hi = UnlessOpen(*p.Hi, Seconds)
		}
		for i := range takeovers {
			if t := &takeovers[i]; t.Lock == p.Lock && t.Class == p.Class && t.Fault != "" && excludes(&b, t, Seconds(ix.off(figures.Nanoseconds(t.Lateness))), Seconds(ix.off(ix.lateBefore(t)))) {
				b.Outside++
				fs = append(fs, Finding("", outsideFinding(&b, t), append([]int64{ix.prediction.N}, t.Evidence...)...))
			}
		}
		out = append(out, b)
	}
	return out, fs
}

// Disturbed reports that something happened during the trial that the sum does not know of: another shot was in force and may have struck
// who would have come next, nobody was there to come next, or a call at the key had no plain answer. One that timed out costs a poll, one
// that was applied unseen a TTL.
func (ix *Facts) Disturbed(t *Trial) bool {
	k := ix.Keys[t.E.Key]
	return !ix.standing(k, t.Shot, t.E) || slices.ContainsFunc(ix.Shots, func(s *Shot) bool {
		return s != t.Shot && s.Applied != nil && s.Applied.From <= t.Ended.To && s.Over.To >= t.Start.From
	}) || slices.ContainsFunc(k.Attempts, func(c *Call) bool {
		plain := c.Outcome == history.OK || c.Outcome == history.Fail && c.Result == history.ResultHeld
		return !plain && c.Span.From <= t.Ended.To && c.Span.To >= t.Start.From
	})
}

// Noise is what round trips, timers and the store's expiry may add to any figure.
func (ix *Facts) Noise() int64 { return 5*ix.Cal.RTT99 + ix.Cal.Timer99 + ix.Cal.Expiry }

// margin is by how much the ends of a band are uncertain: further seeds would move them (by about a width over the root of their number,
// where the ends thin out), and timers and round trips of the machine are what they are.
func (ix *Facts) margin(p history.Predicted) float64 {
	noise := Seconds(ix.Noise())
	width := Seconds(p.P95 - p.Lo)
	if p.Hi != nil {
		width = Seconds(*p.Hi - p.Lo)
	}
	return noise + width/math.Sqrt(float64(max(p.Values, 1)))
}

// lateBefore is how late the machine may have made the renewals of whom the shot struck: less of the lease was left by then.
func (ix *Facts) lateBefore(t *verdict.Takeover) int64 {
	for _, s := range ix.Shots {
		if s.Op != t.Fault {
			continue
		}
		for _, of := range s.Trials {
			if e := of.E; e.Key == t.Key {
				return ix.lateness(of.Start.From-int64(ix.policy(e.Lock).TTL), of.Start.To, ix.wayOf(ix.Keys[e.Key].Loop, e.Replica)...)
			}
		}
	}
	return 0
}

// excludes reports that t lies surely outside, whatever a late machine has made of it, or of the lease before it. A takeover that was not
// seen to end is surely too long once what was seen of it is.
func excludes(p *verdict.Predicted, t *verdict.Takeover, late, before float64) bool {
	return p.Hi != nil && t.Lo-late > *p.Hi+p.Margin || !t.Censored && t.Hi != nil && *t.Hi+before < p.Lo-p.Margin
}

func outsideFinding(p *verdict.Predicted, t *verdict.Takeover) string {
	how := "longer"
	if t.Lo < p.Lo {
		how = "shorter"
	}
	return fmt.Sprintf("lock %s: the takeover after %s took %s, %s than any of %d takeovers in %d rehearsals of this file: %s, give or take %s. The lock's rules and timings do not explain it",
		t.Lock, t.Fault, figures.Seconds(t.Lo, t.Hi), how, p.Values, p.Seeds, figures.Seconds(p.Lo, p.Hi), figures.Exact(figures.Nanoseconds(p.Margin)))
}
