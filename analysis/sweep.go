package analysis

import (
	"cmp"
	"math"
	"slices"
)

// stretchOf is a stretch of time in which holder held.
type stretchOf struct {
	from, to int64 // to is open where it never ended
	holder   int
}

// excess is the integral of max(0, holders - 1) over time, in ns: holder-seconds that mutual exclusion would not have allowed.
// It is open where two hold for ever. It is what all held, each for itself, less what was held at all; stretches of one holder
// may overlap one another without counting twice. O(n log n).
func excess(ss []stretchOf) int64 {
	ss = slices.DeleteFunc(slices.Clone(ss), func(s stretchOf) bool { return s.from >= s.to })
	var last int64 // from here on, at most one holds
	for _, s := range ss {
		last = max(last, s.from)
		if s.to != open {
			last = max(last, s.to)
		}
	}
	endless := -1
	for i, s := range ss {
		if s.to != open {
			continue
		}
		if endless >= 0 && endless != s.holder {
			return open
		}
		endless, ss[i].to = s.holder, last
	}
	slices.SortFunc(ss, func(a, b stretchOf) int { return cmp.Or(cmp.Compare(a.holder, b.holder), cmp.Compare(a.from, b.from)) })
	var each int64
	for i := 0; i < len(ss); {
		n := i + 1
		for n < len(ss) && ss[n].holder == ss[i].holder {
			n++
		}
		each += covered(ss[i:n])
		i = n
	}
	slices.SortFunc(ss, func(a, b stretchOf) int { return cmp.Compare(a.from, b.from) })
	return each - covered(ss)
}

// covered is how much time lies in at least one of the stretches, which are in the order of their beginnings.
func covered(ss []stretchOf) int64 {
	sum, until := int64(0), int64(math.MinInt64)
	for _, s := range ss {
		if from := max(s.from, until); s.to > from {
			sum += s.to - from
			until = s.to
		}
	}
	return sum
}

// collision finds two stretches of different holders at the same time. There is none iff the history of these epochs is
// linearizable to a mutex that knows its owner: each epoch can then be placed at its surely held stretch. O(n log n).
func collision(ss []stretchOf) (a, b int, found bool) {
	order := make([]int, len(ss))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(ss[i].from, ss[j].from), cmp.Compare(ss[i].to, ss[j].to))
	})
	last := -1 // the one that holds longest so far
	for _, i := range order {
		if ss[i].from > ss[i].to {
			continue
		}
		if last >= 0 && ss[i].from < ss[last].to && ss[i].holder != ss[last].holder {
			return last, i, true
		}
		if last < 0 || ss[i].to > ss[last].to {
			last = i
		}
	}
	return 0, 0, false
}
