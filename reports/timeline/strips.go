package timeline

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// parts draws takeovers as bars of residual, pickup and warm-up, each with a texture of its own.
type parts struct {
	layers           [3]path // residual, pickup, warm-up
	whole, open, end path
}

// extent is where a takeover lies on the axis.
func (s scale) extent(t *TrialLane) (x0, x1 float64) {
	x0 = s.x(mid(t.Clock))
	if t.Ended == nil {
		return x0, max(x0, s.x(t.Until))
	}
	return x0, max(x0, s.x(mid(*t.Ended)))
}

// cuts are where residual and pickup end in a takeover that is drawn from x0 to x1.
func (s scale) cuts(t *TrialLane, x0, x1 float64) (residual, pickup float64) {
	residual, pickup = x0, x1
	if !t.Held.End.Open() {
		residual = min(max(s.x(mid(t.Held.End)), x0), x1)
	}
	if t.Next != nil {
		pickup = min(max(s.x(mid(t.Next.Granted)), residual), x1)
	}
	return residual, pickup
}

// add draws t between y0 and y1, its parts where they were on the axis.
func (p *parts) add(s scale, t *TrialLane, y0, y1 float64) {
	x0, x1 := s.extent(t)
	x1 = max(x1, x0+1.5)
	middle := (y0 + y1) / 2
	switch {
	case t.Class == verdict.ClassRecovery || t.Class == verdict.ClassHandOver || t.Fault == "":
		p.whole.box(x0, y0+2, x1, y1-2)
		return
	case t.Residual == nil:
		p.layers[0].box(x0, y0, x1, y1)
	default:
		a, b := s.cuts(t, x0, x1)
		p.layers[0].box(x0, y0, max(a, x0+0.5), y1)
		if b-a > 0.4 {
			p.layers[1].box(a, y0, b, y1)
		}
		if x1-b > 0.4 {
			p.layers[2].box(b, y0, x1, y1)
		}
	}
	if t.Ended == nil { // not seen: it goes on to nobody knows where
		p.open.line(x1, y0, min(x1+6, Width-2), middle, x1, y1)
		return
	}
	p.end.dot(x1, middle, min(3, (y1-y0)/2))
}

// stack draws the parts of t one after the other by their lengths: scale says where a length ends, and box draws from one such place to
// the next. It returns where the last one ends.
func (p *parts) stack(t *verdict.Takeover, scale func(seconds float64) float64, box func(p *path, from, to float64)) (end float64) {
	if t.Residual == nil {
		end = scale(length(t))
		box(&p.whole, scale(0), end)
		return end
	}
	at, from := 0.0, scale(0)
	for i, part := range t.Parts() {
		if at += centre(part.Long); part.Long == nil && t.Hi == nil { // this part went on when last seen
			at = max(at, t.Lo)
		}
		if end = scale(at); max(end-from, from-end) > 0.2 {
			box(&p.layers[i], from, end)
			from = end
		}
	}
	return from
}

// length of the stacked parts of t; its own where it has none.
func length(t *verdict.Takeover) float64 {
	sum := centre(t.Residual) + centre(t.Pickup) + centre(t.Warmup)
	switch {
	case t.Residual == nil:
		whole := t.Whole()
		return centre(&whole)
	case t.Hi == nil:
		return max(sum, t.Lo)
	}
	return sum
}

// centre is where a part is drawn: the middle of its range, its least where it is open; 0 where it was not seen.
func centre(r *verdict.Range) float64 {
	switch {
	case r == nil:
		return 0
	case r.Hi == nil:
		return r.Lo
	}
	return (r.Lo + *r.Hi) / 2
}

func (p *parts) show(c *canvas) {
	for i, m := range []mark{residual, pickup, warmup} {
		c.show(m, &p.layers[i])
	}
	c.show(undivided, &p.whole)
	c.show(unfinished, &p.open)
	c.show(firstEffect, &p.end)
}

// trialsOf are the trials that match, of each fault the longest.
func (w *window) trialsOf(match func(*TrialLane) bool) []*TrialLane {
	var out []*TrialLane
	at := map[string]int{}
	for i := range w.l.Trials {
		t := &w.l.Trials[i]
		if !match(t) {
			continue
		}
		k, known := at[t.Fault]
		switch {
		case t.Fault == "" || !known:
			at[t.Fault] = len(out)
			out = append(out, t)
		case byLength(t, out[k]) < 0:
			out[k] = t
		}
	}
	return out
}

// byLength orders the longest first; what did not end took longest.
func byLength(a, b *TrialLane) int {
	switch {
	case a.Hi == nil && b.Hi != nil:
		return -1
	case b.Hi == nil && a.Hi != nil:
		return 1
	case a.Hi != nil && *a.Hi != *b.Hi:
		return cmp.Compare(*b.Hi, *a.Hi)
	}
	return cmp.Compare(b.Lo, a.Lo)
}

const (
	maxStrips   = 4 // takeovers at the same time that are drawn one below the other
	towerWidth  = 2.5
	towerHeight = 40.0
	towerSpace  = 12.0 // a takeover shorter than this on the axis cannot be read as a bar along it
)

// strip draws the takeovers under a lane, in one line where they do not overlap, and their lengths under it as far as there is room,
// the longest first.
func (w *window) strip(ts []*TrialLane) {
	if len(ts) == 0 {
		w.y += 14
		return
	}
	short := 0
	for _, t := range ts {
		if x0, x1 := w.s.extent(t); x1-x0 < towerSpace {
			short++
		}
	}
	if short > 12 && short > len(ts)/2 {
		w.towers(ts)
		return
	}
	var p parts
	lines := make([]row, 1, maxStrips)
	for _, t := range ts {
		x0, x1 := w.s.extent(t)
		i := slices.IndexFunc(lines, func(r row) bool { return r.free(x0, x1+4) })
		switch {
		case i < 0 && len(lines) < maxStrips:
			i = len(lines)
			lines = append(lines, row{})
		case i < 0: // more at once than there are lines
			i = len(lines) - 1
		}
		lines[i].take(x0, x1+4)
		p.add(w.s, t, w.y+10*float64(i), w.y+10*float64(i)+8)
	}
	p.show(w.c)
	w.y += 10 * float64(len(lines)-1)
	w.lengths(ts)
	w.y += 30
}

func (w *window) lengths(ts []*TrialLane) {
	var r row
	ts = slices.Clone(ts)
	slices.SortStableFunc(ts, func(a, b *TrialLane) int { return cmp.Compare(b.Lo, a.Lo) })
	for _, t := range ts {
		x0, x1 := w.s.extent(t)
		text := about(t.Whole())
		width := widthOf(text, sizeSmall)
		if x, ok := r.place(width, left, right, (x0+x1-width)/2, x0, x1-width); ok {
			w.c.text("away", start, x, w.y+20, sizeSmall, width+1, text)
		}
	}
}

// towers draws takeovers upright at their faults, as high as they were long; of those at the same place the longest.
func (w *window) towers(ts []*TrialLane) {
	ts = slices.Clone(ts)
	slices.SortStableFunc(ts, func(a, b *TrialLane) int { return cmp.Compare(mid(a.Clock), mid(b.Clock)) })
	var kept []*TrialLane
	longest := 1e-9
	for _, t := range ts {
		n := len(kept)
		switch {
		case n == 0 || w.x(t.Clock)-w.x(kept[n-1].Clock) >= towerWidth+0.5:
			kept = append(kept, t)
		case byLength(t, kept[n-1]) < 0:
			kept[n-1] = t
		}
		longest = max(longest, length(&t.Takeover))
	}
	y, floor := w.y, w.y+towerHeight
	level := func(s float64) float64 { return floor - min(s/longest, 1)*towerHeight }
	var p parts
	for _, t := range kept {
		x := min(w.x(t.Clock), right-towerWidth)
		p.stack(&t.Takeover, level, func(p *path, from, to float64) { p.box(x, to, x+towerWidth, from) })
		if t.Ended == nil {
			p.open.line(x-1.5, y, x+towerWidth/2, y-4, x+towerWidth+1.5, y)
		}
	}
	p.show(w.c)
	var base path
	base.line(left, floor, right, floor)
	base.line(left, y, left+4, y)
	w.c.put("rule", &base)
	w.c.text("away", end, left-8, y+24, sizeSmall, gutter-16, "longest "+duration(longest))
	w.c.text("dim", end, left-8, y+38, sizeSmall, gutter-16, figures.Plural(len(ts), "takeover"))
	text := "takeovers upright at their faults, as high as they were long"
	if n := len(ts) - len(kept); n > 0 {
		text += "; " + figures.Count(n) + " of " + ts[0].Lock + " behind a longer one at the same place"
	}
	w.folded = append(w.folded, ts[0].Lock+": "+text+".")
	w.y = floor + 12
}
