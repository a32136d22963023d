package analysis

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// open is the end of a bracket or of a duration that was never seen.
const open = figures.Open

// plus adds d to t and keeps open what is open.
func plus(t, d int64) int64 {
	if t == open || d == open || t > open-d {
		return open
	}
	return t + d
}

// dur is a duration in ns that lies surely in [lo, hi].
type dur struct{ lo, hi int64 }

// between is how long after a the instant b came: [max(0, b- - a+), b+ - a-].
func between(a, b history.Span) dur {
	d := dur{lo: max(0, b.From-a.To), hi: open}
	if b.To != open {
		d.hi = max(0, b.To-a.From)
	}
	return d
}

// Range is d in seconds.
func (d dur) Range() verdict.Range {
	r := verdict.Range{Lo: seconds(d.lo)}
	if d.hi != open {
		hi := seconds(d.hi)
		r.Hi = &hi
	}
	return r
}

func (d dur) String() string { return figures.Range(d.lo, d.hi) }

func (d dur) add(o dur) dur { return dur{d.lo + o.lo, plus(d.hi, o.hi)} }

// worst is the range of the larger of the two.
func (d dur) worst(o dur) dur { return dur{max(d.lo, o.lo), max(d.hi, o.hi)} }

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// first is the bracket of the earlier of two instants.
func first(a, b history.Span) history.Span {
	return history.Span{From: min(a.From, b.From), To: min(a.To, b.To)}
}

// length of what s and w have in common, 0 where nothing.
func common(s, w history.Span) int64 {
	c, ok := s.Intersect(w)
	if !ok {
		return 0
	}
	return c.Width()
}
