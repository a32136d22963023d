package timeline

import "sort"

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

// spread moves labels of the given widths, wanted at these middles in ascending order, apart until none overlap and all lie within
// [from, to]; ok is false where they do not fit.
func spread(mids, widths []float64, from, to, gap float64) (lefts []float64, ok bool) {
	lefts = make([]float64, len(mids))
	at := from
	for i := range mids {
		lefts[i] = max(at, mids[i]-widths[i]/2)
		at = lefts[i] + widths[i] + gap
	}
	at = to
	for i := len(mids) - 1; i >= 0; i-- {
		lefts[i] = min(lefts[i], at-widths[i])
		at = lefts[i] - gap
	}
	return lefts, len(mids) == 0 || lefts[0] >= from
}

// merged joins stretches that overlap or leave less than gap between them; they must be ordered by x0.
func merged(ss []stretch, gap float64) []stretch {
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
