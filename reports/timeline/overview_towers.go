package timeline

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

const (
	towerWidth  = 2.5
	towerHeight = 40.0
	towerSpace  = 12.0 // a takeover shorter than this on the axis cannot be read as a bar along it
)

// crowded reports that most of the takeovers are too short on the axis to be told apart.
func (o *overview) crowded(ts []*verdict.TrialLane) bool {
	short := 0
	for _, t := range ts {
		if x0, x1 := trialExtent(o.s, t); x1-x0 < towerSpace {
			short++
		}
	}
	return short > 12 && short > len(ts)/2
}

// towers draws takeovers upright at their faults, as high as they were long; of those at the same place the longest.
func (o *overview) towers(y float64, ts []*verdict.TrialLane) float64 {
	ts = slices.Clone(ts)
	slices.SortStableFunc(ts, func(a, b *verdict.TrialLane) int { return cmp.Compare(mid(a.Clock), mid(b.Clock)) })
	var kept []*verdict.TrialLane
	longest := 1e-9
	for _, t := range ts {
		n := len(kept)
		switch {
		case n == 0 || o.s.x(mid(t.Clock))-o.s.x(mid(kept[n-1].Clock)) >= towerWidth+0.5:
			kept = append(kept, t)
		case longer(t, kept[n-1]):
			kept[n-1] = t
		}
		longest = max(longest, lengthOf(t))
	}
	floor := y + towerHeight
	var p parts
	for _, t := range kept {
		x := min(o.s.x(mid(t.Clock)), right-towerWidth)
		level := func(s float64) float64 { return floor - min(s/longest, 1)*towerHeight }
		a, b := 0.0, 0.0
		if t.Residual != nil {
			a = min(centre(t.Residual), lengthOf(t))
			b = min(a+centre(t.Pickup), lengthOf(t))
			p.residual.box(x, level(a), x+towerWidth, floor)
			if b > a {
				p.pickup.box(x, level(b), x+towerWidth, level(a))
			}
			if lengthOf(t) > b {
				p.warmup.box(x, level(lengthOf(t)), x+towerWidth, level(b))
			}
		} else {
			p.whole.box(x, level(lengthOf(t)), x+towerWidth, floor)
		}
		if t.Ended == nil {
			p.open.line(x-1.5, y, x+towerWidth/2, y-4, x+towerWidth+1.5, y)
		}
	}
	p.put(o.c)
	o.drawn.note(&p)
	var base path
	base.line(left, floor, right, floor)
	base.line(left, y, left+4, y)
	o.c.put("rule", &base)
	o.c.text("away", end, left-8, y+24, sizeSmall, gutter-16, "longest "+duration(longest))
	o.c.text("dim", end, left-8, y+38, sizeSmall, gutter-16, figures.Plural(len(ts), "takeover"))
	text := "takeovers upright at their faults, as high as they were long"
	if n := len(ts) - len(kept); n > 0 {
		text += "; " + figures.Count(n) + " of " + ts[0].Lock + " behind a longer one at the same place"
	}
	o.folded = append(o.folded, ts[0].Lock+": "+text+".")
	return floor + 12
}
