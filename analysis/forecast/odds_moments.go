package forecast

import (
	"math"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

// oddsSteps is how finely what is spread evenly is laid out.
const oddsSteps = 500

// struckLease lists what is left of the lease of a loop, or of a lock of whose work nothing is known.
func struckLease(p *lockcore.Policy, phase fault.Phase) []struckAt {
	ttl, every, tick := p.TTL.Seconds(), p.RenewEvery.Seconds(), 0.0
	if p.Loop != nil {
		tick = p.Loop.Tick.Seconds()
	}
	switch {
	case phase == fault.AfterGrant, phase == fault.Acquired, phase == fault.AfterRenew && every > 0:
		return []struckAt{{left: ttl, weight: 1}}
	case phase == fault.BeforeRenew && every > 0:
		return []struckAt{{left: max(0, ttl-BeforeRenew*(1-p.RenewJitter)*every), weight: 1}}
	case every > 0 && (p.Loop == nil || p.Loop.Mode == lockcore.LoopRenewed):
		return even(every*(1+p.RenewJitter), func(age float64) struckAt {
			return struckAt{left: max(0, ttl-age), weight: outlives(age, every, p.RenewJitter)}
		})
	}
	renewed := func(at float64) float64 { // when the lease was last extended: only a tick that runs renews
		if every == 0 {
			return 0
		}
		return math.Floor(min(at, tick)/every) * every
	}
	span := renewed(tick) + ttl
	if p.Loop != nil && p.Loop.Mode == lockcore.LoopExplicit && tick > 0 { // between ticks nobody holds it
		span = tick
	}
	return even(span, func(at float64) struckAt { return struckAt{left: max(0, renewed(at)+ttl-at), weight: 1} })
}

// even lays out the moments from 0 to span.
func even(span float64, at func(float64) struckAt) []struckAt {
	out := make([]struckAt, oddsSteps)
	for i := range out {
		out[i] = at((float64(i) + 0.5) / oddsSteps * span)
	}
	return out
}

// outlives is how likely an interval that jitters is longer than age.
func outlives(age, every, jitter float64) float64 {
	a, b := every*(1-jitter), every*(1+jitter)
	switch {
	case age < a:
		return 1
	case age >= b:
		return 0
	}
	return (b - age) / (b - a)
}

// struckJob lists what is left of a job's lease, and how long the free key then waits for the next offer: both count from the offer that
// brought the grant, so they keep step.
func struckJob(p *lockcore.Policy, w *experiments.Work, phase fault.Phase) []struckAt {
	ttl, every := p.TTL.Seconds(), p.RenewEvery.Seconds()
	at := func(renewed, age, weight float64) struckAt { // the lease was extended at renewed, and age ago
		return struckAt{left: max(0, ttl-age), wait: offered(p, w, renewed+ttl), weight: weight * stillWork(w, renewed+age)}
	}
	switch {
	case phase == fault.AfterGrant, phase == fault.Acquired:
		return []struckAt{at(0, 0, 1)}
	case every == 0:
		return even(ttl, func(age float64) struckAt { return at(0, age, 1) })
	}
	var out []struckAt
	for _, r := range renewals(every, p.RenewJitter, 2*w.Longest().Seconds()) {
		switch {
		case phase == fault.AfterRenew && r.at == 0: // a grant is no renewal
		case phase == fault.AfterRenew:
			out = append(out, at(r.at, 0, r.weight))
		case phase == fault.BeforeRenew:
			out = append(out, at(r.at, BeforeRenew*(1-p.RenewJitter)*every, r.weight))
		default:
			const ages = 64
			for k := range ages {
				age := (float64(k) + 0.5) / ages * every * (1 + p.RenewJitter)
				out = append(out, at(r.at, age, r.weight*outlives(age, every, p.RenewJitter)))
			}
		}
	}
	return out
}

// offered is how long a key that is free so long after an offer waits for the next one. An offer at the very instant of the end comes too
// early: the lease counts from a grant, which is later than its offer. Who waits for a while is there when it ends.
func offered(p *lockcore.Policy, w *experiments.Work, free float64) float64 {
	again := w.Redeliver.Seconds()
	if again == 0 {
		return 0
	}
	since := math.Mod(free, again)
	if p.Acquire.Mode == lockcore.AcquireWait && since <= p.Acquire.Budget.Seconds() {
		return 0
	}
	return again - since
}

// stillWork is how likely a job of any class is.
func stillWork(w *experiments.Work, after float64) (likely float64) {
	for _, k := range w.Kinds() {
		likely += k.Share * stillWorks(*k.Hold, after)
	}
	return likely
}

// stillWorks is how likely a job is still at work so long after its grant.
func stillWorks(h experiments.Hold, after float64) float64 {
	p50, p99 := h.P50.Seconds(), h.P99.Seconds()
	switch {
	case after <= 0, p50 == p99 && after < p99:
		return 1
	case p50 == p99 || p50 == 0:
		return 0
	}
	const z99 = 2.3263478740408408
	return math.Erfc(math.Log(after/p50)/math.Log(p99/p50)*z99/math.Sqrt2) / 2
}

// renewedAt is when a lease may be extended, counted from its grant, and how many such renewals there are on average.
type renewedAt struct{ at, weight float64 }

// renewals lists the renewals of a lease, the grant included, until upTo: each interval jitters by itself.
func renewals(every, jitter, upTo float64) []renewedAt {
	const most = 1000 // of a work that is far longer, the first thousand stand for the rest
	out := []renewedAt{{0, 1}}
	upTo = min(upTo, most*every)
	if jitter == 0 {
		for k := 1; float64(k)*every < upTo; k++ {
			out = append(out, renewedAt{float64(k) * every, 1})
		}
		return out
	}
	// The k-th renewal is the sum of k such intervals. come is how likely it has come by the beginning of each cell, and in between linear.
	const cellsEach = 32
	cell := max(every/cellsEach, upTo/2048)
	come := make([]float64, int(upTo/cell)+2)
	for i := range come {
		come[i] = 1 // the grant
	}
	count := make([]float64, len(come)-1)
	a, b := every*(1-jitter), every*(1+jitter)
	for k := 1; float64(k)*a < upTo; k++ {
		below := integral(come, cell)
		next := make([]float64, len(come))
		for i := range next {
			next[i] = (below(float64(i)*cell-a) - below(float64(i)*cell-b)) / (b - a)
		}
		for i := range count {
			count[i] += next[i+1] - next[i]
		}
		come = next
	}
	for i, n := range count {
		if n > 1e-9 {
			out = append(out, renewedAt{(float64(i) + 0.5) * cell, n})
		}
	}
	return out
}

// integral gives the area below a line through values that are a cell apart, from 0 to x; below 0 the line is 0.
func integral(values []float64, cell float64) func(x float64) float64 {
	area := make([]float64, len(values))
	for i := 1; i < len(values); i++ {
		area[i] = area[i-1] + (values[i-1]+values[i])/2*cell
	}
	return func(x float64) float64 {
		if x <= 0 {
			return 0
		}
		i := min(int(x/cell), len(values)-2)
		rest := x - float64(i)*cell
		return area[i] + rest*(values[i]+(values[i+1]-values[i])*rest/cell/2)
	}
}
