package analysis

import (
	"math"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Measure is Judge with the samples that the rows stand on, each beside its row.
func (ix *Facts) Measure() (*verdict.Judgement, []verdict.Sample) {
	j := ix.judger.judging(ix.Facts)
	j.said = ix.said
	told := j.judgement()
	return told, j.samples
}

func (a *answer) sample(r *verdict.SLOResult) verdict.Sample {
	s := verdict.Sample{Question: a.l, Unit: a.unit, Of: verdict.OfRun, N: a.n}
	if a.m.kills {
		s = a.claim()
	}
	s.Limit, s.Broken = r.Limit, a.broken != ""
	switch {
	case a.m.kills:
		for _, l := range r.Missing {
			if s.Open == "" && !l.Code.CountsAllTheSame() {
				s.Open = l.Why
			}
		}
		for _, v := range a.each {
			s.Values = append(s.Values, v.Range())
		}
		s.Parts = partsOf(a.kills)
	case r.N == 0 && r.Hi == nil: // nothing was measured
	case !a.l.Trials && len(r.Missing) > 0: // not reached; a quantile may only be too few to claim
	case math.Abs(r.Lo) == verdict.Infinite: // nothing can be reckoned with it
	case r.Unfit: // a pause lets any two believe; a series that nobody has shown is not 0
	default:
		s.Values = []verdict.Range{{Lo: r.Lo, Hi: r.Hi}}
	}
	return s
}

// partsOf are the parts of the worst takeover of each kill; nil where none was seen.
func partsOf(kills []facts.Kill) (all [][]verdict.Range) {
	for _, k := range kills {
		t := k.Worst.Takeover()
		for i, part := range t.Parts() {
			if part.Long == nil {
				continue
			}
			if all == nil {
				all = make([][]verdict.Range, len(t.Parts()))
			}
			all[i] = append(all[i], *part.Long)
		}
	}
	return all
}
