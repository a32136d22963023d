package forecast

import (
	"cmp"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Prediction gathers the takeovers of rehearsals, by lock and class.
type Prediction struct {
	seeds  int64
	series map[[2]string]*rehearsedTakeovers
}

type rehearsedTakeovers struct {
	lo, hi  float64
	middles []float64 // of those that were seen to end, in seconds
	open    int64
}

// Add takes the judgement of one rehearsed drill.
func (p *Prediction) Add(j *verdict.Judgement) {
	p.seeds++
	if p.series == nil {
		p.series = map[[2]string]*rehearsedTakeovers{}
	}
	for _, t := range j.Takeovers {
		if t.Fault == "" { // brought about by no fault of the run
			continue
		}
		s := p.series[[2]string{t.Lock, t.Class}]
		if s == nil {
			s = &rehearsedTakeovers{lo: math.Inf(1)}
			p.series[[2]string{t.Lock, t.Class}] = s
		}
		s.lo = min(s.lo, t.Lo)
		if t.Hi == nil {
			s.open++
			continue
		}
		s.hi = max(s.hi, *t.Hi)
		s.middles = append(s.middles, (t.Lo+*t.Hi)/2)
	}
}

// Merge takes in what another has gathered.
func (p *Prediction) Merge(o *Prediction) {
	p.seeds += o.seeds
	if p.series == nil {
		p.series = o.series
		return
	}
	for k, b := range o.series {
		a := p.series[k]
		if a == nil {
			p.series[k] = b
			continue
		}
		a.lo, a.hi, a.open = min(a.lo, b.lo), max(a.hi, b.hi), a.open+b.open
		a.middles = append(a.middles, b.middles...)
	}
}

// Body is what a live run records of it: lock by lock.
func (p *Prediction) Body() *history.Prediction {
	out := &history.Prediction{Seeds: p.seeds}
	for k, s := range p.series {
		out.Takeovers = append(out.Takeovers, s.body(k[0], k[1]))
	}
	slices.SortFunc(out.Takeovers, func(a, b history.Predicted) int {
		return cmp.Or(cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.Class, b.Class))
	})
	return out
}

func (s *rehearsedTakeovers) body(lock, class string) history.Predicted {
	slices.Sort(s.middles)
	n := int64(len(s.middles)) + s.open
	at := func(q float64) int64 {
		i := max(int64(math.Ceil(q*float64(n)))-1, 0)
		if len(s.middles) == 0 {
			return figures.Nanoseconds(s.lo)
		}
		return figures.Nanoseconds(s.middles[min(i, int64(len(s.middles))-1)])
	}
	p := history.Predicted{Lock: lock, Class: class, Values: n, Open: s.open, Lo: figures.Nanoseconds(s.lo), P50: at(0.5), P95: at(0.95)}
	if s.open == 0 {
		hi := figures.Nanoseconds(s.hi)
		p.Hi = &hi
	}
	return p
}
