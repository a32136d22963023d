package timeline

import (
	"cmp"
	"slices"
	"sort"
)

// row keeps apart what stands on one line: labels and the shapes that they must not cover.
type row struct{ taken []stretch }

// stretch of the horizontal.
type stretch struct{ x0, x1 float64 }

// free reports whether nothing stands between x0 and x1.
func (r *row) free(x0, x1 float64) bool {
	i := sort.Search(len(r.taken), func(i int) bool { return r.taken[i].x1 > x0 })
	return i == len(r.taken) || r.taken[i].x0 >= x1
}

// take marks what stands there now. Stretches that overlap become one.
func (r *row) take(x0, x1 float64) { r.taken = merged(append(r.taken, stretch{x0, x1}), 0) }

// place finds room for a label of that width at the first of the candidates (left ends) where there is some within [from, to].
func (r *row) place(width, from, to float64, candidates ...float64) (x float64, ok bool) {
	for _, x := range candidates {
		if x >= from && x+width <= to && r.free(x-2, x+width+2) {
			r.take(x-2, x+width+2)
			return x, true
		}
	}
	return 0, false
}

// label is a text that is wanted with its middle at x.
type label struct {
	text, class string
	x           float64
}

func (l label) width() float64 { return widthOf(l.text, sizeSmall) }

// spread orders labels and moves them apart until none overlap and all lie within the plot; ok is false where they do not fit.
func spread(ls []label, gap float64) (lefts []float64, ok bool) {
	slices.SortStableFunc(ls, func(a, b label) int { return cmp.Compare(a.x, b.x) })
	lefts = make([]float64, len(ls))
	at := left
	for i, l := range ls {
		lefts[i] = max(at, l.x-l.width()/2)
		at = lefts[i] + l.width() + gap
	}
	at = right
	for i := len(ls) - 1; i >= 0; i-- {
		lefts[i] = min(lefts[i], at-ls[i].width())
		at = lefts[i] - gap
	}
	return lefts, len(ls) == 0 || lefts[0] >= left
}

// captions writes labels on one line, apart from one another, each with a line from below it down to where it belongs; to = y for none.
// Those for which there is no room are left out: they stand in the description or in the table.
func (c *canvas) captions(ls []label, y, to float64) {
	lefts, ok := spread(ls, 10)
	for ; !ok; lefts, ok = spread(ls, 10) {
		ls = ls[:len(ls)-1]
	}
	var leads path
	for i, l := range ls {
		c.text(l.class, start, lefts[i], y, sizeSmall, l.width()+1, l.text)
		if to > y {
			leads.line(min(max(l.x, lefts[i]), lefts[i]+l.width()), y+4, l.x, to)
		}
	}
	c.put("lead", &leads)
}
