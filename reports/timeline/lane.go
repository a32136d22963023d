package timeline

import (
	"cmp"
	"slices"
)

// lane is one line of a window: bars, and marks at instants. What lies closer together than can be told apart is drawn as one.
type lane struct {
	w              *window
	y              float64 // its top
	bars, points   []*layer
	inside, beside row // labels on bars, and what labels beside them must not cover
}

// layer is what a lane has of one mark at one height.
type layer struct {
	mark
	y0, y1 float64
	at     []stretch // of a point only where it begins
}

// lane begins the next one, under its name.
func (w *window) lane(name, under string) *lane {
	w.c.text("ink", end, left-8, w.y+13, sizeName, gutter-16, name)
	w.c.text("dim", end, left-8, w.y+26, sizeSmall, gutter-16, under)
	return w.unnamed()
}

// unnamed begins a lane that goes with the one above it.
func (w *window) unnamed() *lane { return &lane{w: w, y: w.y} }

func put(ls *[]*layer, m mark, y0, y1, x0, x1 float64) {
	i := slices.IndexFunc(*ls, func(l *layer) bool { return l.text == m.text && l.y0 == y0 && l.y1 == y1 && l.styles[0] == m.styles[0] })
	if i < 0 {
		i = len(*ls)
		*ls = append(*ls, &layer{mark: m, y0: y0, y1: y1})
	}
	(*ls)[i].at = append((*ls)[i].at, stretch{x0, x1})
}

// bar is drawn between two heights of the lane.
func (n *lane) bar(m mark, y0, y1, x0, x1 float64) { put(&n.bars, m, y0, y1, x0, x1) }

// point is drawn at a height of the lane.
func (n *lane) point(m mark, y, x float64) { put(&n.points, m, y, y, x, x) }

// over draws bars where they lie in the window.
func (n *lane) over(m mark, y0, y1 float64, es ...Extent) {
	for _, e := range es {
		if n.w.meets(e.Start, e.End) {
			x0 := n.w.x(e.Start)
			n.bar(m, y0, y1, x0, max(x0+0.5, n.w.until(e.End)))
		}
	}
}

// at draws points where they lie in the window.
func (n *lane) at(m mark, y float64, ms ...Moment) {
	for _, t := range ms {
		if n.w.has(t) {
			n.point(m, y, n.w.x(t))
		}
	}
}

// bracket draws how exactly an instant is known, where that can be seen.
func (n *lane) bracket(t Moment) {
	if x0, x1 := n.w.s.x(t.From), n.w.s.x(t.To); !t.Open() && x1-x0 >= 3 {
		n.bar(vague, -3, -3, x0, x1)
	}
}

// label writes the first of the texts for which there is room between x0 and x1.
func (n *lane) label(y, x0, x1 float64, texts ...string) {
	for _, text := range texts {
		width := widthOf(text, sizeSmall)
		if x1-x0 <= width+6 {
			continue
		}
		if x, ok := n.inside.place(width, x0, x1, (x0+x1-width)/2); ok {
			n.w.c.text("onfill", start, x, n.y+y, sizeSmall, width+1, text)
			return
		}
	}
}

// note writes a text to the right or the left of what lies between x0 and x1 of a lane that is drawn; where it leaves no room, upon it.
func (n *lane) note(y, x0, x1 float64, text string) {
	width := widthOf(text, sizeSmall)
	x, ok := n.beside.place(width, left, right, x1+9, x0-9-width)
	if !ok {
		if x, ok = n.inside.place(width+2, x0+2, x1-2, x0+4); !ok {
			return
		}
		var ground path
		ground.box(x-1, n.y+y-10, x+1+width, n.y+y+3)
		n.w.c.put("ground", &ground)
	}
	n.w.c.text("ink", start, x, n.y+y, sizeSmall, width+1, text)
}

// draw draws the lane, the points above the bars, and makes room for it.
func (n *lane) draw(height float64) {
	for _, l := range n.bars {
		var p path
		for _, s := range merged(l.at, 0.6) {
			l.bar(&p, s.x0, n.y+l.y0, s.x1, n.y+l.y1)
		}
		n.w.c.show(l.mark, &p)
	}
	for _, l := range n.points {
		var p path
		r := l.half
		if len(l.at) > 80 && l.wide > 3 {
			r = 3
		}
		xs := apart(l.at, max(1, min(l.wide, 5)))
		if l.text != effect.text && l.text != grant.text {
			n.w.close += len(l.at) - len(xs)
		}
		for _, x := range xs {
			l.point(&p, x, n.y+l.y0, r)
		}
		n.w.c.show(l.mark, &p)
	}
	n.w.y += height
}

// merged orders stretches and joins those that overlap or leave less than gap between them.
func merged(ss []stretch, gap float64) []stretch {
	slices.SortStableFunc(ss, func(a, b stretch) int { return cmp.Compare(a.x0, b.x0) })
	var out []stretch
	for _, s := range ss {
		if n := len(out); n > 0 && s.x0 <= out[n-1].x1+gap {
			out[n-1].x1 = max(out[n-1].x1, s.x1)
			continue
		}
		out = append(out, s)
	}
	return out
}

// apart orders the begins of stretches and leaves out those that lie closer than gap to the one before.
func apart(ss []stretch, gap float64) []float64 {
	slices.SortStableFunc(ss, func(a, b stretch) int { return cmp.Compare(a.x0, b.x0) })
	var out []float64
	for _, s := range ss {
		if n := len(out); n == 0 || s.x0-out[n-1] >= gap {
			out = append(out, s.x0)
		}
	}
	return out
}
