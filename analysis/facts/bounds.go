package facts

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Open is the end of a bracket or of a duration that was never seen.
const Open = figures.Open

// Plus adds d to t and keeps open what is open.
func Plus(t, d int64) int64 {
	if t == Open || d == Open || t > Open-d {
		return Open
	}
	return t + d
}

// Dur is a duration in ns that lies surely in [lo, hi].
type Dur struct{ Lo, Hi int64 }

// between is how long after a the instant b came: [max(0, b- - a+), b+ - a-].
func between(a, b history.Span) Dur {
	d := Dur{Lo: max(0, b.From-a.To), Hi: Open}
	if b.To != Open {
		d.Hi = max(0, b.To-a.From)
	}
	return d
}

// Range is d in seconds.
func (d Dur) Range() verdict.Range {
	return verdict.Range{Lo: Seconds(d.Lo), Hi: UnlessOpen(d.Hi, Seconds)}
}

// UnlessOpen is an end in the unit of a document; nil where it was not seen.
func UnlessOpen(end int64, in func(int64) float64) *float64 {
	if end == Open {
		return nil
	}
	v := in(end)
	return &v
}

// windowOf is s in seconds.
func windowOf(s history.Span) *verdict.Window {
	return &verdict.Window{From: Seconds(s.From), To: UnlessOpen(s.To, Seconds)}
}

func (d Dur) String() string { return figures.Range(d.Lo, d.Hi) }

func (d Dur) Add(o Dur) Dur { return Dur{d.Lo + o.Lo, Plus(d.Hi, o.Hi)} }

// Worst is the range of the larger of the two.
func (d Dur) Worst(o Dur) Dur { return Dur{max(d.Lo, o.Lo), max(d.Hi, o.Hi)} }

func Seconds(ns int64) float64 { return float64(ns) / 1e9 }

// first is the bracket of the earlier of two instants.
func first(a, b history.Span) history.Span {
	return history.Span{From: min(a.From, b.From), To: min(a.To, b.To)}
}

// later is the bracket of the later of two instants.
func later(a, b history.Span) history.Span {
	return history.Span{From: max(a.From, b.From), To: max(a.To, b.To)}
}

// length of what s and w have in common, 0 where nothing.
func common(s, w history.Span) int64 {
	c, ok := s.Intersect(w)
	if !ok {
		return 0
	}
	return c.Width()
}
