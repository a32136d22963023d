package timeline

import (
	"cmp"
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
	measure, figure := verdict.MeasureWords(r.Measure), figureOf(r.Unit)
	l := ladder{title: "Trend of " + measure + " of lock " + r.Lock, axis: measure + ": the median of each run", unit: r.Unit, columns: []string{"Started", "Side", "Run", "Median", "From"},
		desc: fmt.Sprintf("%s by start time, the earliest on top, each with its median.", figures.Plural(len(runs), "run"))}
	if w := r.Base.Within; w != nil && w.Lo != nil && w.Hi != nil {
		l.base = &[2]float64{*w.Lo, *w.Hi}
		l.desc += " The base's median lies within " + figure(*w.Lo) + " to " + figure(*w.Hi) + "."
	}
	for _, run := range runs {
		side := sideName(run.head)
		l.rungs = append(l.rungs, rung{name: when(run.Started), lo: cmp.Or(run.Median.Lo, new(float64)), hi: run.Median.Hi,
			drawn: shape("run of the "+side, map[bool]string{true: "mark", false: "hollow"}[run.head], disc),
			cells: []string{when(run.Started), side, run.Run, endsText(run.Median, r.Unit), figures.Plural(run.N, r.Of)}})
	}
	return l.draw(id)
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
