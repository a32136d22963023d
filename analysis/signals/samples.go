// Package signals keeps what others count and write: metrics as scrapes showed them, and lines of logs that matched. It says within
// which range a number lies in a stretch of time, and when nothing could be read of it, and knows no lock, no promise and no judge.
package signals

import (
	"cmp"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// Samples are what was seen of metrics, by their names: the targets of each in the order of their first sample.
type Samples map[string][]*Target

// Target is one metric at one target: every change of its value that a look has shown, and every stretch in which none could be read.
type Target struct {
	Name   string
	Kind   string // counter, gauge ...; "" = never said
	Points []Point
	Last   history.Span // the last look that was answered
	Gone   string       // why looks are not answered any more; "" = they are
	Final  bool         // the final look was answered
	N      int64        // the last sample
	blind  []Blind      // in their order; the last one may be open
}

// Point is one value: the sum of the series that match.
type Point struct {
	Span   history.Span
	Prev   *history.Span   // the last look that showed the point before
	Value  float64         // may be NaN or infinite
	Series []history.Value // none: the target has no such series
	N      int64
}

// Blind is a stretch in which nothing could be read: from the end of the last look that could to the beginning of the next.
type Blind struct {
	history.Span        // To is math.MaxInt64 where nothing was read any more
	Why          string // for a person
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
	t.read(ev)
	gone := t.Gone
	t.Gone, t.N = x.Gone, ev.N
	if x.Gone != "" {
		return
	}
	if x.Type != "" {
		t.Kind = x.Type
	}
	p := Point{Span: ev.Span, Prev: x.Prev, Series: x.Values, N: ev.N}
	if gone != "" && len(t.Points) > 0 { // the looks since the last answered one showed nothing
		last := t.Last
		p.Prev = &last
	}
	for _, v := range x.Values {
		p.Value += float64(v.Value)
	}
	t.Points = append(t.Points, p)
	t.Last, t.Final = ev.Span, x.Final
}

// read begins a blind stretch where the sample is no reading, or one of a part, and else ends it. Who is dead, or serves none, is not blind.
func (t *Target) read(ev *history.Event) {
	x, n := ev.Sample, len(t.blind)
	open := n > 0 && t.blind[n-1].To == never
	unread := x.Partial != "" || x.Gone != "" && x.Gone != history.GoneExited && x.Gone != history.GoneNoMetrics
	switch {
	case unread && !open:
		from := ev.From
		if len(t.Points) > 0 {
			from = t.Last.To
		}
		t.blind = append(t.blind, Blind{history.Span{From: from, To: never}, cmp.Or(x.Partial, x.Why, x.Gone)})
	case !unread && open:
		t.blind[n-1].To = max(t.blind[n-1].From, ev.From)
	}
}

// never is the end of what did not end.
const never = math.MaxInt64

// Present reports whether the target has ever shown the series.
func (t *Target) Present() bool {
	return slices.ContainsFunc(t.Points, func(p Point) bool { return len(p.Series) > 0 })
}

// Unread is why the target could not be read for the first time; "" = it could whenever it was asked.
func (t *Target) Unread() string {
	if len(t.blind) == 0 {
		return ""
	}
	return t.blind[0].Why
}

// Lost is why the target could not be read any more at the end; "" = it could, or there was nothing to read.
func (t *Target) Lost() string {
	if n := len(t.blind); n > 0 && t.blind[n-1].To == never {
		return t.blind[n-1].Why
	}
	return ""
}

// Blind lists the stretches in which the target told no number: it could not be read, or, unless that means zero, it had no such series.
func (t *Target) Blind(zero bool) []Blind {
	all := slices.Clone(t.blind)
	for i, p := range t.Points {
		if zero || len(p.Series) > 0 {
			continue
		}
		from, to := p.Span.From, int64(never)
		if p.Prev != nil && i > 0 {
			from = p.Prev.To
		}
		if i+1 < len(t.Points) {
			to = t.Points[i+1].Span.From
		}
		all = append(all, Blind{history.Span{From: from, To: max(from, to)}, "it has no such series"})
	}
	slices.SortStableFunc(all, func(a, b Blind) int { return cmp.Compare(a.From, b.From) })
	return all
}

// Joined makes one of stretches, sorted or not, between which lies no more than apart.
func Joined(all []Blind, apart int64) (out []Blind) {
	slices.SortStableFunc(all, func(a, b Blind) int { return cmp.Compare(a.From, b.From) })
	for _, b := range all {
		if n := len(out); n > 0 && b.From-out[n-1].To <= apart {
			out[n-1].To, out[n-1].Why = max(out[n-1].To, b.To), cmp.Or(out[n-1].Why, b.Why)
			continue
		}
		out = append(out, b)
	}
	return out
}

// Odd is the first point that may have been in force in w and is no number to reckon with: NaN, or, of a counter, infinite.
func (t *Target) Odd(w history.Span, counter bool) (Point, bool) {
	for i, p := range t.Points {
		over := i+1 < len(t.Points) && t.Points[i+1].Span.To <= w.From
		if !over && p.Span.From <= w.To && (math.IsNaN(p.Value) || counter && math.IsInf(p.Value, 0)) {
			return p, true
		}
	}
	return Point{}, false
}

// Reading is a value that lies surely in [Lo, Hi]; Hi may be infinite.
type Reading struct{ Lo, Hi float64 }

// Rise is by how much a counter grew within w, as far as looks have shown it. born: its process did not exist before w, so it began at 0.
// What is no number of a counter (Odd) is passed over, but that it rose to infinity.
func (t *Target) Rise(w history.Span, born bool) Reading {
	points := t.counted()
	seen := 0 // points of which all that they count had come by the end of w
	for seen < len(points) && points[seen].Span.To <= w.To {
		seen++
	}
	r := rise(points[:seen], w.From, born)
	if seen < len(points) { // of the next one, nobody knows how much had
		r.Hi = rise(points[:seen+1], w.From, born).Hi
	}
	return r
}

// counted are the points that a counter can have had, each after the last look that showed the one before it.
func (t *Target) counted() []Point {
	all, since := make([]Point, 0, len(t.Points)), (*history.Span)(nil)
	for _, p := range t.Points {
		prev := p.Prev
		if since != nil {
			prev = since
		}
		if math.IsNaN(p.Value) || math.IsInf(p.Value, -1) {
			since = prev
			continue
		}
		p.Prev, since = prev, nil
		all = append(all, p)
	}
	return all
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
		case math.IsInf(a.Value, 1): // nobody knows by how much, since then
			r.Hi = math.Inf(1)
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
	case next.Value < before, math.IsInf(before, 1):
		return Reading{0, math.Inf(1)}
	case next.Prev != nil && next.Prev.From >= at: // a look after that instant still showed the value before
		return Reading{next.Value - before, next.Value - before}
	}
	return Reading{0, next.Value - before}
}

// Highest is the largest value that was in force from at on, where there was one: at least the largest of those that a look after that
// showed, at most that of all that may have been. NaN is passed over.
func (t *Target) Highest(at int64) (r Reading, ok bool) {
	r = Reading{math.Inf(-1), math.Inf(-1)}
	for i, p := range t.Points {
		shown, over := t.Last, int64(never) // the last look that showed it, and by when it was over
		if i+1 < len(t.Points) {
			shown, over = p.Span, t.Points[i+1].Span.To
			if prev := t.Points[i+1].Prev; prev != nil {
				shown = *prev
			}
		}
		if len(p.Series) == 0 || math.IsNaN(p.Value) || over <= at {
			continue
		}
		if r.Hi, ok = max(r.Hi, p.Value), true; max(p.Span.From, shown.From) >= at {
			r.Lo = max(r.Lo, p.Value)
		}
	}
	return r, ok
}
