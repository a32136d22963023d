package timeline

import "github.com/lockdrill/lockdrill/analysis/verdict"

// parts draws takeovers as bars of residual, pickup and warm-up, each with a texture of its own.
type parts struct {
	residual, pickup, warmup, whole, open, dots path
}

// lengthOf a takeover as it is drawn, in seconds.
func lengthOf(t *verdict.TrialLane) float64 {
	if t.Ended == nil {
		return max(0, t.Until-mid(t.Clock))
	}
	return max(0, mid(*t.Ended)-mid(t.Clock))
}

// trialExtent is where a takeover lies on the axis.
func trialExtent(s scale, t *verdict.TrialLane) (x0, x1 float64) {
	x0 = s.x(mid(t.Clock))
	if t.Ended == nil {
		return x0, max(x0, s.x(t.Until))
	}
	return x0, max(x0, s.x(mid(*t.Ended)))
}

// cuts are where residual and pickup end in a takeover that is drawn from x0 to x1.
func cuts(s scale, t *verdict.TrialLane, x0, x1 float64) (residual, pickup float64) {
	residual, pickup = x0, x1
	if !t.Held.End.Open() {
		residual = min(max(s.x(mid(t.Held.End)), x0), x1)
	}
	if t.Next != nil {
		pickup = min(max(s.x(mid(t.Next.Granted)), residual), x1)
	}
	return residual, pickup
}

// add draws t between y0 and y1.
func (p *parts) add(s scale, t *verdict.TrialLane, y0, y1 float64) {
	x0, x1 := trialExtent(s, t)
	x1 = max(x1, x0+1.5)
	middle := (y0 + y1) / 2
	switch {
	case t.Class == verdict.ClassRecovery || t.Class == verdict.ClassHandOver || t.Fault == "":
		p.whole.box(x0, y0+2, x1, y1-2)
		return
	case t.Residual == nil:
		p.residual.box(x0, y0, x1, y1)
	default:
		a, b := cuts(s, t, x0, x1)
		p.residual.box(x0, y0, max(a, x0+0.5), y1)
		if b-a > 0.4 {
			p.pickup.box(a, y0, b, y1)
		}
		if x1-b > 0.4 {
			p.warmup.box(b, y0, x1, y1)
		}
	}
	if t.Ended == nil { // not seen: it goes on to nobody knows where
		p.open.line(x1, y0, min(x1+6, Width-2), middle, x1, y1)
		return
	}
	p.dots.dot(x1, middle, min(3, (y1-y0)/2))
}

func (p *parts) put(c *canvas) {
	c.put("residual", &p.residual)
	c.put("pickup", &p.pickup)
	c.weave("weave", &p.pickup)
	c.put("warmup", &p.warmup)
	c.weave("comb", &p.warmup)
	c.put("whole", &p.whole)
	c.put("stroke", &p.open)
	c.put("mark", &p.dots)
}

// shown is which parts of takeovers were drawn, for a legend.
type shown struct{ residual, pickup, warmup, whole, open, dots bool }

func (s *shown) note(p *parts) {
	s.residual, s.pickup, s.warmup = s.residual || !p.residual.empty(), s.pickup || !p.pickup.empty(), s.warmup || !p.warmup.empty()
	s.whole, s.open, s.dots = s.whole || !p.whole.empty(), s.open || !p.open.empty(), s.dots || !p.dots.empty()
}

// explain adds what was drawn to a legend.
func (s *shown) explain(l *legend) {
	if s.residual {
		l.swatch("residual", "", "takeover: residual, until the lease ends")
	}
	if s.pickup {
		l.swatch("pickup", "weave", "pickup, until the next grant")
	}
	if s.warmup {
		l.swatch("warmup", "comb", "warm-up, until the first effect")
	}
	if s.dots {
		l.shape("mark", "first effect", func(p *path, x, y float64) { p.dot(x, y, 3) })
	}
	if s.open {
		l.shape("stroke", "not seen to its end", func(p *path, x, y float64) { p.line(x-3, y-5, x+3, y, x-3, y+5) })
	}
	if s.whole {
		l.swatch("whole", "", "recovery, hand-over or theft")
	}
}
