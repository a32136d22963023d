package compare

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// comparedParts are what takeovers of both sides were made of; none where neither side saw any.
func comparedParts(base, head *sample) (all []ComparedPart) {
	for i, name := range verdict.PartNames() {
		a, b := sampleOf(base.parts[i]), sampleOf(head.parts[i])
		if a.N()+b.N() == 0 {
			continue
		}
		part := ComparedPart{Name: name, Base: medianOf(a), Head: medianOf(b)}
		if a.N() > 0 && b.N() > 0 {
			part.Shift = intervalOf(stats.Shift(a, b), true)
		}
		all = append(all, part)
	}
	return all
}

// medianOf is nil of no values.
func medianOf(s stats.Sample) *Interval {
	if s.N() == 0 {
		return nil
	}
	return intervalOf(s.Median(), true)
}

// mostly names the part of takeovers that moved most, the way in which the whole did; "" where none surely did.
func (r *ComparedRow) mostly() string {
	name, most := "", 0.0
	for _, p := range r.Parts {
		by := 0.0
		switch {
		case p.Shift == nil:
		case r.Word == Worse && p.Shift.Lo != nil:
			by = *p.Shift.Lo
		case r.Word == Better && p.Shift.Hi != nil:
			by = -*p.Shift.Hi
		}
		if by > most {
			name, most = p.Name, by
		}
	}
	if name == "" {
		return ""
	}
	return "; " + name + map[Word]string{Worse: " grew", Better: " shrank"}[r.Word] + " most, by at least " + figures.Floor(figures.Nanoseconds(most))
}
