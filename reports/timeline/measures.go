package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/sweep"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// judgedRow is a row that was judged: filled where the promise was kept, hollow where it was not.
func judgedRow(name string, lo, hi *float64, limit float64, v verdict.Verdict, unit string) ranged {
	figure := figureOf(unit)
	r := ranged{name: name, lo: lo, hi: hi, drawn: shape("not kept, or not known", "hollow", 4, (*path).dot), cells: []string{name, "none", "none", figure(limit), string(v)}}
	if v == verdict.Pass {
		r.drawn = shape("kept: the least and the most that was measured", "mark", 4, (*path).dot)
	}
	if limit != 0 || lo != nil {
		r.limit = &limit
	}
	if lo != nil {
		r.cells[1], r.cells[2] = figure(*lo), "not seen"
	}
	if lo != nil && hi != nil {
		r.cells[2] = figure(*hi)
	}
	return r
}

// measured is a picture of one row of SLOs by what the first column says.
func measured(measure, unit, first string) *ranges {
	return &ranges{axis: verdict.MeasureWords(measure), text: axisText(unit), of: "run", columns: []string{first, "At least", "At most", "Limit", "Verdict"}}
}

// Sweep draws each row of a sweep's steps against its limit: one line a value of the dial, the lowest on top. value writes a value of the
// dial. A row that no step measured has no picture. level names those that were kept at 0 at every value: they have none either.
func Sweep(s *sweep.Document, value func(float64) string) (out []Picture, level []string) {
	if len(s.Steps) == 0 {
		return nil, nil
	}
	for i, row := range s.Steps[0].Rows {
		l := measured(row.Measure, row.Unit, s.Dial)
		for _, step := range s.Steps {
			if i < len(step.Rows) && step.Rows[i].Lo != nil {
				r := &step.Rows[i]
				l.rows = append(l.rows, judgedRow(value(step.Value), r.Lo, r.Hi, r.Limit, r.Verdict, row.Unit))
			}
		}
		l.title = l.axis + " of lock " + row.Lock
		if !slices.ContainsFunc(l.rows, func(r ranged) bool {
			return r.cells[4] != string(verdict.Pass) || *r.lo != 0 || r.hi == nil || *r.hi != 0
		}) {
			if len(l.rows) > 0 {
				level = append(level, l.title)
			}
			continue
		}
		limited := "the limit of"
		if row.Ask == verdict.AtLeast {
			limited = "the least that is asked for,"
		}
		l.title += " by " + s.Dial
		l.desc = fmt.Sprintf("%s of the %s, the lowest on top, each with what was measured, beside %s %s.", figures.Plural(len(l.rows), "value"), s.Dial, limited, l.rows[0].cells[3])
		out = append(out, l.draw("sweep-"+count(len(out)+1)))
	}
	return out, level
}

// Archive draws each row of an experiment's runs against its limit: one line a run, the earliest on top. id sets its pictures apart from
// those of other experiments. level names the rows without a picture: they were kept at 0 in every run.
func Archive(e *compare.ArchivedExperiment, id string) (out []Picture, level []string) {
	for i := range e.Rows {
		row := &e.Rows[i]
		l := measured(row.Measure, row.Unit, "Started")
		l.title = l.axis + " of lock " + row.Lock
		if len(row.Values) == len(e.Runs) && !slices.ContainsFunc(row.Values, func(v compare.ArchivedValue) bool {
			return v.Verdict != verdict.Pass || v.Lo != 0 || v.Hi == nil || *v.Hi != 0
		}) {
			level = append(level, l.title)
			continue
		}
		l.desc = fmt.Sprintf("%s, the earliest on top, each with what was measured, beside its limit.", figures.Plural(len(e.Runs), "run"))
		values := map[int]*compare.ArchivedValue{}
		for k := range row.Values {
			values[row.Values[k].Run] = &row.Values[k]
		}
		for k, run := range e.Runs {
			day := when(run.Started)
			r := judgedRow(day[:min(len(day), len("2006-01-02 15:04"))], nil, nil, 0, verdict.Inconclusive, row.Unit)
			if v := values[k]; v != nil && (v.N > 0 || v.Hi != nil) {
				r = judgedRow(r.name, &v.Lo, v.Hi, v.Limit, v.Verdict, row.Unit)
			} else if v != nil {
				r = judgedRow(r.name, nil, nil, v.Limit, v.Verdict, row.Unit)
			}
			r.empty = "no value: " + run.Verdict
			if days := int(run.Idle / 86400); k > 0 && days >= 2 { // weeks are read in days
				r.above = append(r.above, "no run for "+figures.Plural(days, "day"))
			} else if k > 0 && run.Idle > 0 {
				r.above = append(r.above, "no run for "+duration(run.Idle))
			}
			r.above = append(r.above, run.Changed...)
			l.rows = append(l.rows, r)
		}
		out = append(out, l.draw(id+"-"+count(len(out)+1)))
	}
	return out, level
}

// leastTrend is how many runs make a trend.
const leastTrend = 3

// Trends draws each row that several runs have values of, by start time: the earliest on top. A row that is the same everywhere has
// no picture.
func Trends(c *compare.Comparison) (out []Picture) {
	for i := range c.Rows {
		r := &c.Rows[i]
		figure, measure := figureOf(r.Unit), verdict.MeasureWords(r.Measure)
		l := &ranges{title: "Trend of " + measure + " of lock " + r.Lock, axis: measure + ": the median of each run", text: axisText(r.Unit), of: "run",
			columns: []string{"Started", "Side", "Run", "Median", "From"}}
		level := true // all runs have the same one value
		add := func(side, style string, runs []compare.ComparedValue) {
			for _, run := range runs {
				lo, hi := cmp.Or(run.Median.Lo, new(float64)), run.Median.Hi
				level = level && run.Median.Lo != nil && hi != nil && *lo == *hi && (len(l.rows) == 0 || *lo == *l.rows[0].lo)
				l.rows = append(l.rows, ranged{name: when(run.Started), lo: lo, hi: hi, drawn: shape("run of the "+side, style, 4, (*path).dot),
					cells: []string{when(run.Started), side, run.Run, endsText(run.Median, r.Unit), figures.Plural(run.N, r.Of)}})
			}
		}
		add("base", "hollow", r.Base.Runs)
		add("head", "mark", r.Head.Runs)
		if len(l.rows) < leastTrend || level {
			continue
		}
		slices.SortStableFunc(l.rows, func(a, b ranged) int { return strings.Compare(a.name, b.name) })
		l.desc = fmt.Sprintf("%s by start time, the earliest on top, each with its median.", figures.Plural(len(l.rows), "run"))
		if w := r.Base.Within; w != nil && w.Lo != nil && w.Hi != nil {
			l.bands = []band{{mark: baseMedian, lo: *w.Lo, hi: *w.Hi}}
			l.desc += " The base's median lies within " + figure(*w.Lo) + " to " + figure(*w.Hi) + "."
		}
		out = append(out, l.draw("trend-"+count(len(out)+1)))
	}
	return out
}

// when is a start time to the second.
func when(started string) string {
	return strings.Replace(started[:min(len(started), len("2006-01-02T15:04:05"))], "T", " ", 1)
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
