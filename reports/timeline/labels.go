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
func (r *row) take(x0, x1 float64) {
	i := sort.Search(len(r.taken), func(i int) bool { return r.taken[i].x1 >= x0 })
	k := i
	for ; k < len(r.taken) && r.taken[k].x0 <= x1; k++ {
		x0, x1 = min(x0, r.taken[k].x0), max(x1, r.taken[k].x1)
	}
	r.taken = append(r.taken[:i], append([]stretch{{x0, x1}}, r.taken[k:]...)...)
}

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

// labels writes them where spread put them.
func (c *canvas) labels(ls []label, lefts []float64, y float64) {
	for i, l := range ls {
		c.text(l.class, start, lefts[i], y, sizeSmall, l.width()+1, l.text)
	}
}

// leads draws a line from each label to where it belongs.
func (c *canvas) leads(ls []label, lefts []float64, y0, y1 float64) {
	var p path
	for i, l := range ls {
		p.line(min(max(l.x, lefts[i]), lefts[i]+l.width()), y0, l.x, y1)
	}
	c.put("lead", &p)
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
