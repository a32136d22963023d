package timeline

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

const (
	maxTargets   = 6
	signalHeight = 110.0
)

// Signals draws every metric that was scraped, at all its targets, with the faults behind it.
func Signals(l *Lanes) []Picture {
	var out []Picture
	for i := range l.Signals {
		out = append(out, signal(l, &l.Signals[i], i+1))
	}
	return out
}

func signal(l *Lanes, m *SignalLane, n int) Picture {
	w := newWindow("signal-"+count(n), l, 0, max(l.Seconds, 1e-3))
	kind := ""
	if m.Kind != "" {
		kind = " (" + m.Kind + ")"
	}
	p := Picture{
		Title: "Metric " + m.Metric + kind, Desc: "The values of " + m.Metric + " at " + figures.Plural(len(m.Targets), "target") + " over the run, with the faults behind them.",
		Columns: []string{"Target", "Before the first fault", "During the faults", "After the last fault"},
	}
	w.faults()
	top := w.y + 6
	lo, hi := extremes(m)
	y := func(v float64) float64 { return top + signalHeight - (v-lo)/(hi-lo)*signalHeight }
	var grid path
	for _, v := range []float64{lo, (lo + hi) / 2, hi} {
		grid.line(left, y(v), right, y(v))
		w.c.text("dim", end, left-6, y(v)+4, sizeSmall, 70, value(v))
	}
	w.c.under("grid", &grid)
	w.c.text("ink", end, left-6, top+34, sizeName, gutter-16, m.Metric)
	from, to := faultTime(l)
	var names []string // the lives of one replica share a line
	for i := range m.Targets {
		t := &m.Targets[i]
		p.Rows = append(p.Rows, append([]string{t.Target}, around(t, from, to)...))
		name := history.ReplicaOf(t.Target)
		n := slices.Index(names, name)
		if n < 0 {
			n = len(names)
			names = append(names, name)
		}
		if n >= maxTargets {
			continue
		}
		w.c.show(stroke(name, "l"+count(n)), w.series(t, y))
	}
	w.y = top + signalHeight + 6
	w.shade(top)
	if extra := len(names) - maxTargets; extra > 0 {
		w.folded = append(w.folded, figures.Plural(extra, "further target")+": in the table")
	}
	return w.finish(p, top, 0)
}

func extremes(m *SignalLane) (lo, hi float64) {
	for _, t := range m.Targets {
		for _, p := range t.Points {
			lo, hi = min(lo, p.Value), max(hi, p.Value)
		}
	}
	if lo == hi {
		hi = lo + 1
	}
	return lo, hi
}

func value(v float64) string {
	if a := math.Abs(v); a >= 1e6 || a > 0 && a < 1e-3 {
		return strconv.FormatFloat(v, 'e', 1, 64)
	}
	return figures.Decimal(v)
}

// series is the line of one target, as steps: a value holds until a sample has shown another.
func (w *window) series(t *SignalTarget, y func(float64) float64) *path {
	var p path
	var points []float64
	flush := func(until float64) {
		if n := len(points); n > 0 {
			points = append(points, w.s.x(until), points[n-1])
			p.stairs(points...)
		}
		points = nil
	}
	for _, v := range t.Points {
		at := mid(v.At)
		if v.Absent {
			flush(at)
			continue
		}
		if n := len(points); n > 0 {
			if x := w.s.x(at); x-points[n-2] < 0.5 && n > 4 { // within half a unit: only where it ends
				points[n-1] = y(v.Value)
				continue
			}
			points = append(points, w.s.x(at), points[n-1])
		}
		points = append(points, w.s.x(at), y(v.Value))
	}
	flush(t.Last)
	return &p
}

// faultTime is from the first effective fault to the end of the last.
func faultTime(l *Lanes) (from, to float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for i := range l.Faults {
		f := &l.Faults[i]
		if f.Effective == nil {
			continue
		}
		from, to = min(from, f.Effective.From), max(to, f.Effective.From)
		if f.Over.Open() {
			to = l.Seconds
		} else {
			to = max(to, f.Over.To)
		}
	}
	return from, to
}

// around says what the values were before, during and after the faults: the range of values and what is no number, or "none".
func around(t *SignalTarget, from, to float64) []string {
	var spans [3][]float64
	var odd [3][]string
	for i, p := range t.Points {
		if p.Absent && p.Odd == "" {
			continue
		}
		begin, end := p.At.To, t.Last
		if i+1 < len(t.Points) {
			end = t.Points[i+1].At.To
		}
		for k, w := range [][2]float64{{math.Inf(-1), from}, {from, to}, {to, math.Inf(1)}} {
			switch {
			case begin >= w[1] || end < w[0]:
			case p.Odd == "":
				spans[k] = append(spans[k], p.Value)
			case !slices.Contains(odd[k], p.Odd):
				odd[k] = append(odd[k], p.Odd)
			}
		}
	}
	var out []string
	for k, vs := range spans {
		texts := odd[k]
		if len(vs) > 0 {
			text := value(slices.Min(vs))
			if lo, hi := slices.Min(vs), slices.Max(vs); hi != lo {
				text += " to " + value(hi)
			}
			texts = append([]string{text}, texts...)
		}
		out = append(out, cmp.Or(strings.Join(texts, ", "), "none"))
	}
	return out
}
