// Package signals keeps what others count and write: metrics as scrapes showed them, and lines of logs that matched. It says within
// which range a number lies in a stretch of time, and knows no lock, no promise and no judge.
package signals

import (
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// Samples are what was seen of metrics, by their names: the targets of each in the order of their first sample.
type Samples map[string][]*Target

// Target is one metric at one target: every change of its value that a look has shown.
type Target struct {
	Name   string
	Kind   string // counter, gauge ...; "" = never said
	Points []Point
	Last   history.Span // the last look that was answered
	Gone   string       // why looks are not answered any more; "" = they are
	Final  bool         // the final look was answered
	N      int64        // the last sample
}

// Point is one value: the sum of the series that match.
type Point struct {
	Span   history.Span
	Prev   *history.Span // the last look that showed the point before
	Value  float64
	Series []history.Value // none: the target has no such series
	N      int64
}

// Take adds a sample to those of its metric at its target.
func (all Samples) Take(ev *history.Event) {
	x := ev.Sample
	of := all[x.Metric]
	at := slices.IndexFunc(of, func(t *Target) bool { return t.Name == x.Target })
	if at < 0 {
		at = len(of)
		of = append(of, &Target{Name: x.Target})
		all[x.Metric] = of
	}
	of[at].take(ev)
}

func (t *Target) take(ev *history.Event) {
	x := ev.Sample
	if x.Prev != nil && t.Gone == "" && len(t.Points) > 0 {
		t.Last = *x.Prev
	}
	t.Gone, t.N = x.Gone, ev.N
	if x.Gone != "" {
		return
	}
	if x.Type != "" {
		t.Kind = x.Type
	}
	p := Point{Span: ev.Span, Prev: x.Prev, Series: x.Values, N: ev.N}
	for _, v := range x.Values {
		p.Value += float64(v.Value)
	}
	t.Points = append(t.Points, p)
	t.Last, t.Final = ev.Span, x.Final
}

// Present reports whether the target has ever shown the series.
func (t *Target) Present() bool {
	return slices.ContainsFunc(t.Points, func(p Point) bool { return len(p.Series) > 0 })
}

// Reading is a value that lies surely in [Lo, Hi]; Hi may be infinite.
type Reading struct{ Lo, Hi float64 }

// Rise is by how much a counter grew within w, as far as looks have shown it. born: its process did not exist before w, so it began at 0.
func (t *Target) Rise(w history.Span, born bool) Reading {
	seen := 0 // points of which all that they count had come by the end of w
	for seen < len(t.Points) && t.Points[seen].Span.To <= w.To {
		seen++
	}
	r := rise(t.Points[:seen], w.From, born)
	if seen < len(t.Points) { // of the next one, nobody knows how much had
		r.Hi = rise(t.Points[:seen+1], w.From, born).Hi
	}
	return r
}

func rise(points []Point, at int64, born bool) Reading {
	i := 0 // points that were seen before
	for i < len(points) && points[i].Span.To <= at {
		i++
	}
	if i == len(points) {
		return Reading{}
	}
	r := base(points, i, at, born)
	for ; i+1 < len(points); i++ {
		a, b := points[i], points[i+1]
		switch {
		case b.Value < a.Value: // another process: it began at 0, and what the last one counted at its end is lost
			r = Reading{r.Lo + b.Value, math.Inf(1)}
		case len(a.Series) == 0: // nobody knows what it was while it was not there
			r.Hi += b.Value
		default:
			r = Reading{r.Lo + b.Value - a.Value, r.Hi + b.Value - a.Value}
		}
	}
	return r
}

// base is the growth from at to the i-th point, the first that was seen after.
func base(points []Point, i int, at int64, born bool) Reading {
	next := points[i]
	if born {
		return Reading{next.Value, next.Value}
	}
	if i == 0 || len(points[i-1].Series) == 0 {
		return Reading{0, next.Value}
	}
	before := points[i-1].Value
	switch {
	case next.Value < before:
		return Reading{0, math.Inf(1)}
	case next.Prev != nil && next.Prev.From >= at: // a look after that instant still showed the value before
		return Reading{next.Value - before, next.Value - before}
	}
	return Reading{0, next.Value - before}
}

// Highest is the largest value that was in force from at on.
func (t *Target) Highest(at int64) float64 {
	top := math.Inf(-1)
	for i, p := range t.Points {
		if len(p.Series) > 0 && (p.Span.To > at || i+1 == len(t.Points) || t.Points[i+1].Span.To > at) {
			top = max(top, p.Value)
		}
	}
	return top
}
