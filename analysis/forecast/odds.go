package forecast

import (
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/experiments"
)

// odds is how the takeovers of one lock from its declared faults are spread, worked out beforehand: all calls are answered at once, and
// the polls of a loop come at phases that have nothing to do with the lease. All times are seconds.
type odds struct {
	moments []struckAt
	polls   *polls // nil = the wait is known with the moment: offers of a job keep step with its lease
}

// struckAt is one moment of the lease at which the fault may strike.
type struckAt struct {
	left   float64 // until the key is free
	wait   float64 // from then on, where there are no polls
	weight float64 // all together 1
}

// polls are those who ask for a free key: others at any time, and whoever is started for the victim.
type polls struct {
	period, jitter float64
	others         int
	restart        float64 // after the fault; it begins at a random phase, as every replica does
}

// oddsOf works out the takeovers of a lock at the kill phases that e declares, each as likely as the others. b is its band, under the class
// of faults that it is judged on.
func oddsOf(e *experiments.Experiment, b band) odds {
	l := b.lock
	p := &l.Policy
	var o odds
	if p.Loop != nil {
		o.polls = &polls{p.Loop.Poll.Seconds(), p.Loop.Jitter, e.System.Replicas - 1, restartOf(e).Seconds()}
	}
	w := e.WorkUnder(l.Name)
	if p.Loop == nil && (w == nil || w.Longest() == 0) { // nothing is known of the work, and whoever waits comes at any time
		o.polls = &polls{redelivery(e, l.Name).Seconds(), 0, 1, math.Inf(1)}
		w = nil
	}
	if !slices.ContainsFunc(b.upper, func(t term) bool { return t.name == "ttl" }) { // no lease runs out: the fault itself keeps all away, if anything
		left := 0.0
		for _, t := range b.upper {
			if t.name == "fault" {
				left = t.value.Seconds()
			}
		}
		o.add([]struckAt{{left: left, weight: 1}})
		if o.polls == nil {
			o.polls = &polls{w.Redeliver.Seconds(), 0, 1, math.Inf(1)}
		}
		return o
	}
	for _, phase := range b.phases {
		if w != nil {
			o.add(struckJob(p, w, phase))
		} else {
			o.add(struckLease(p, phase))
		}
	}
	return o.normalised()
}

func (o odds) normalised() odds {
	total := 0.0
	for _, m := range o.moments {
		total += m.weight
	}
	for i := range o.moments {
		o.moments[i].weight /= total
	}
	return o
}

// add takes in the moments of one phase, which together weigh 1 then.
func (o *odds) add(ms []struckAt) {
	total := 0.0
	for _, m := range ms {
		total += m.weight
	}
	if total == 0 { // the phase does not come about
		return
	}
	for _, m := range ms {
		m.weight /= total
		o.moments = append(o.moments, m)
	}
}

// within is how likely a takeover takes at most t.
func (o *odds) within(t float64) float64 {
	sum := 0.0
	for _, m := range o.moments {
		switch {
		case t < m.left || o.polls == nil && t < m.left+m.wait:
		case o.polls == nil:
			sum += m.weight
		default:
			sum += m.weight * (1 - o.polls.nobody(m.left, t-m.left))
		}
	}
	if sum > 1-1e-9 { // what the adding leaves
		return 1
	}
	return sum
}

// leftAbove is how likely the key stays taken for longer than t.
func (o *odds) leftAbove(t float64) float64 {
	sum := 0.0
	for _, m := range o.moments {
		if m.left > t {
			sum += m.weight
		}
	}
	return sum
}

// mean is the mean takeover; +Inf where nobody ever comes, or the phase never.
func (o *odds) mean() float64 {
	if len(o.moments) == 0 {
		return math.Inf(1)
	}
	sum := 0.0
	for _, m := range o.moments {
		wait := m.wait
		if o.polls != nil {
			wait = o.polls.mean(m.left)
		}
		sum += m.weight * (m.left + wait)
	}
	return sum
}

// nobody is how likely the key, free since left, is still unasked for after wait.
func (p *polls) nobody(left, wait float64) float64 {
	if p.period == 0 {
		return 0
	}
	chance := math.Pow(p.quiet(wait), float64(max(0, p.others)))
	if alone := left + wait - max(left, p.restart); alone > 0 {
		chance *= p.quiet(alone)
	}
	return chance
}

// mean is how long a key that is free after left waits on average.
func (p *polls) mean(left float64) float64 {
	longest := p.period * (1 + p.jitter)
	if p.others <= 0 {
		longest += max(0, p.restart-left)
	}
	if math.IsInf(longest, 1) {
		return longest
	}
	const steps = 200
	sum := 0.0
	for i := range steps {
		sum += p.nobody(left, (float64(i)+0.5)/steps*longest)
	}
	return sum / steps * longest
}

// quiet is how likely one who polls has not done so for t, from a moment that has nothing to do with it.
func (p *polls) quiet(t float64) float64 {
	a, b := p.period*(1-p.jitter), p.period*(1+p.jitter)
	switch {
	case t <= 0:
		return 1
	case t <= a:
		return 1 - t/p.period
	case t < b:
		return (b - t) * (b - t) / (2 * (b - a) * p.period)
	}
	return 0
}
