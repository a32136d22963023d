package timeline

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
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

// maxStrips is how many takeovers at the same time are drawn one below the other.
const maxStrips = 4

// strip draws the takeovers under a lane, in one line where they do not overlap, and their lengths under it as far as there is room,
// the longest first.
func (w *window) strip(ts []*TrialLane) {
	if len(ts) == 0 {
		w.y += 14
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
