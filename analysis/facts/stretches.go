package facts

import (
	"cmp"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// stretchOf is a stretch of time in which holder held.
type stretchOf struct {
	from, to int64 // to is open where it never ended
	holder   int
}

// cutOut removes p from the stretches.
func cutOut(ss []stretchOf, p history.Span) []stretchOf {
	var out []stretchOf
	for _, s := range ss {
		if s.to <= p.From || s.from >= p.To {
			out = append(out, s)
			continue
		}
		if s.from < p.From {
			out = append(out, stretchOf{s.from, p.From, s.holder})
		}
		if s.to > p.To {
			out = append(out, stretchOf{p.To, s.to, s.holder})
		}
	}
	return out
}

// cutTo are the parts of stretches that lie in w.
func cutTo(ss []stretchOf, w history.Span) (out []stretchOf) {
	for _, s := range ss {
		if s.from, s.to = max(s.from, w.From), min(s.to, w.To); s.from < s.to {
			out = append(out, s)
		}
	}
	return out
}

// merged joins stretches that overlap, and drops those that are no time at all.
func merged(ss []stretchOf) []stretchOf {
	ss = slices.DeleteFunc(ss, func(s stretchOf) bool { return s.from >= s.to })
	slices.SortFunc(ss, func(a, b stretchOf) int { return cmp.Compare(a.from, b.from) })
	var out []stretchOf
	for _, s := range ss {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// excess is the integral of max(0, holders - 1) over time, in ns: holder-seconds that mutual exclusion would not have allowed.
// It is open where two hold for ever. It is what all held, each for itself, less what was held at all; stretches of one holder
// may overlap one another without counting twice. O(n log n).
func excess(ss []stretchOf) int64 {
	ss = slices.DeleteFunc(slices.Clone(ss), func(s stretchOf) bool { return s.from >= s.to })
	var last int64 // from here on, at most one holds
	for _, s := range ss {
		last = max(last, s.from)
		if s.to != Open {
			last = max(last, s.to)
		}
	}
	endless := -1
	for i, s := range ss {
		if s.to != Open {
			continue
		}
		if endless >= 0 && endless != s.holder {
			return Open
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
	for _, c := range collisions(ss) {
		return c[0], c[1], true
	}
	return 0, 0, false
}

// collisions are the stretches that begin while another holder's goes on: each beside the one that holds longest so far, in the order of time.
func collisions(ss []stretchOf) (found [][2]int) {
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
			found = append(found, [2]int{last, i})
		}
		if last < 0 || ss[i].to > ss[last].to {
			last = i
		}
	}
	return found
}

// filled is how much of w lies in at least one of the stretches.
func filled(ss []stretchOf, w history.Span) int64 {
	ss = cutTo(ss, w)
	slices.SortFunc(ss, func(a, b stretchOf) int { return cmp.Compare(a.from, b.from) })
	return covered(ss)
}

// total is how long the stretches last, each for itself; open where one never ends.
func total(ss []stretchOf) (sum int64) {
	for _, s := range ss {
		if s.from >= s.to {
			continue
		}
		if s.to == Open {
			return Open
		}
		sum += s.to - s.from
	}
	return sum
}
