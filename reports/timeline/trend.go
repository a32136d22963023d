package timeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// trended is one run of a trend.
type trended struct {
	compare.ComparedValue
	head bool
}

// maxTrend is how many runs a trend has; those that are left out are the earliest, and are counted.
const maxTrend = 30

// leastTrend is how many runs make one.
const leastTrend = 3

// Trends draws each row that several runs have values of, by start time: the earliest on top. A row that is the same everywhere has
// no picture.
func Trends(c *compare.Comparison) []Picture {
	var out []Picture
	for i := range c.Rows {
		r := &c.Rows[i]
		var runs []trended
		for _, v := range r.Base.Runs {
			runs = append(runs, trended{v, false})
		}
		for _, v := range r.Head.Runs {
			runs = append(runs, trended{v, true})
		}
		slices.SortStableFunc(runs, func(a, b trended) int { return strings.Compare(a.Started, b.Started) })
		if len(runs) >= leastTrend && !level(runs) {
			out = append(out, trend("trend-"+count(len(out)+1), r, runs))
		}
	}
	return out
}

// level reports that all runs have the same one value.
func level(runs []trended) bool {
	same := func(a, b *float64) bool { return a != nil && b != nil && *a == *b }
	first := runs[0].Median
	return !slices.ContainsFunc(runs, func(r trended) bool { return !same(r.Median.Lo, first.Lo) || !same(r.Median.Hi, first.Lo) })
}

func trend(id string, r *compare.ComparedRow, runs []trended) Picture {
	c := newCanvas(id)
	measure := verdict.MeasureWords(r.Measure)
	pic := Picture{Title: "Trend of " + measure + " of lock " + r.Lock, Columns: []string{"Started", "Side", "Run", "Median", "From"}}
	figure := figureOf(r.Unit)
	pic.Desc = fmt.Sprintf("%s by start time, the earliest on top, each with its median.", figures.Plural(len(runs), "run"))
	if w := r.Base.Within; w != nil && w.Lo != nil && w.Hi != nil {
		pic.Desc += " The base's median lies within " + figure(*w.Lo) + " to " + figure(*w.Hi) + "."
	}
	for _, run := range runs {
		pic.Rows = append(pic.Rows, []string{when(run.Started), sideName(run.head), run.Run, endsText(run.Median, r.Unit), figures.Plural(run.N, r.Of)})
	}
	early := max(len(runs)-maxTrend, 0)
	t := &trendPlot{c: c, y: 16, s: scaleOf(r, runs[early:])}
	if early > 0 {
		c.text("dim", start, left, t.y+2, sizeSmall, right-left, figures.Plural(early, "earlier run")+" left out: see the table")
		t.y += 14
	}
	top := t.y
	for _, run := range runs[early:] {
		t.run(run)
	}
	t.y += 6
	t.band(r, top)
	c.axis(t.s, top, t.y, measure+": the median of each run", axisText(r.Unit))
	return c.finish(pic, t.y+44)
}

// trendPlot is a trend in the making.
type trendPlot struct {
	c *canvas
	s scale
	y float64
}

// scaleOf takes in all runs and the base's interval, and 0 where that is not far.
func scaleOf(r *compare.ComparedRow, runs []trended) scale {
	var all []float64
	add := func(i *compare.Interval) {
		if i == nil {
			return
		}
		for _, v := range []*float64{i.Lo, i.Hi} {
			if v != nil {
				all = append(all, *v)
			}
		}
	}
	for i := range runs {
		add(&runs[i].Median)
	}
	add(r.Base.Within)
	lo, hi := slices.Min(append(all, 0)), slices.Max(append(all, 0))
	return scale{lo, lo + max((hi-lo)*1.06, 1e-6), left, right}
}

// run draws one run: the head filled, the base hollow, as wide as its range.
func (t *trendPlot) run(r trended) {
	const h = 17.0
	y := t.y + h/2
	t.c.text("dim", end, left-8, y+4, sizeSmall, gutter-12, when(r.Started))
	from := t.s.x0
	if r.Median.Lo != nil {
		from = t.s.x(*r.Median.Lo)
	}
	to, at := from+9, from
	if r.Median.Hi != nil {
		to = t.s.x(*r.Median.Hi)
		at = (from + to) / 2
	}
	style := map[bool]string{true: "mark", false: "hollow"}[r.head]
	t.c.measured(t.s, shape("run of the "+sideName(r.head), style, disc), from, to, y, r.Median.Hi == nil, at)
	t.y += h
}

// band is where the base's median lies.
func (t *trendPlot) band(r *compare.ComparedRow, top float64) {
	w := r.Base.Within
	if w == nil || w.Lo == nil || w.Hi == nil {
		return
	}
	var p path
	p.box(t.s.x(*w.Lo), top, t.s.x(*w.Hi), t.y)
	t.c.showUnder(baseMedian, &p)
}

func sideName(head bool) string { return map[bool]string{true: "head", false: "base"}[head] }

// when is a start time to the second.
func when(started string) string {
	if len(started) >= len("2006-01-02T15:04:05") {
		started = started[:len("2006-01-02T15:04:05")]
	}
	return strings.Replace(started, "T", " ", 1)
}

// figureOf writes values of the unit.
func figureOf(unit string) func(float64) string {
	switch unit {
	case verdict.UnitSeconds:
		return duration
	case verdict.UnitRatio:
		return func(v float64) string { return number(100*v) + "%" }
	}
	return number
}

// axisText names ticks of the unit.
func axisText(unit string) func(t, step, largest float64) string {
	if unit == verdict.UnitSeconds {
		return tickText
	}
	return func(t, _, _ float64) string { return figureOf(unit)(t) }
}

// endsText is an interval for a table.
func endsText(i compare.Interval, unit string) string {
	figure := figureOf(unit)
	switch {
	case i.Lo != nil && unit == verdict.UnitSeconds:
		return bracket(verdict.Range{Lo: *i.Lo, Hi: i.Hi})
	case i.Lo == nil || i.Hi == nil:
		return "open"
	case *i.Lo == *i.Hi:
		return figure(*i.Lo)
	}
	return figure(*i.Lo) + " to " + figure(*i.Hi)
}
