package timeline

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/sweep"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Sweep draws each row of a sweep's steps against its limit: one line a value of the dial, the lowest on top. value writes a value of the
// dial. A row that no step measured has no picture.
func Sweep(s *sweep.Document, value func(float64) string) []Picture {
	var out []Picture
	if len(s.Steps) == 0 {
		return nil
	}
	for i, row := range s.Steps[0].Rows {
		l := ladder{unit: row.Unit, axis: verdict.MeasureWords(row.Measure), columns: judgedColumns(s.Dial)}
		for j := range s.Steps {
			step := &s.Steps[j]
			if i < len(step.Rows) && step.Rows[i].Lo != nil {
				r := &step.Rows[i]
				l.rungs = append(l.rungs, judgedRung(value(step.Value), r.Lo, r.Hi, r.Limit, r.Verdict, figureOf(row.Unit)))
			}
		}
		if len(l.rungs) > 0 {
			l.title = verdict.MeasureWords(row.Measure) + " of lock " + row.Lock + " by " + s.Dial
			limited := "the limit of"
			if row.Ask == verdict.AtLeast {
				limited = "the least that is asked for,"
			}
			l.desc = fmt.Sprintf("%s of the %s, the lowest on top, each with what was measured, beside %s %s.", figures.Plural(len(l.rungs), "value"), s.Dial, limited, l.rungs[0].cells[3])
			out = append(out, l.draw("sweep-"+count(len(out)+1)))
		}
	}
	return out
}

// mostRungs is how many runs a picture of them has; those that are left out are the earliest, and are counted.
const mostRungs = 60

// Archive draws each row of an experiment's runs against its limit: one line a run, the earliest on top. id sets its pictures apart from
// those of other experiments. level names the rows without a picture: they were kept at 0 in every run.
func Archive(e *compare.ArchivedExperiment, id string) (out []Picture, level []string) {
	for i := range e.Rows {
		row := &e.Rows[i]
		if len(row.Values) == len(e.Runs) && !slices.ContainsFunc(row.Values, func(v compare.ArchivedValue) bool {
			return v.Verdict != verdict.Pass || v.Lo != 0 || v.Hi == nil || *v.Hi != 0
		}) {
			level = append(level, verdict.MeasureWords(row.Measure)+" of lock "+row.Lock)
			continue
		}
		l := ladder{unit: row.Unit, axis: verdict.MeasureWords(row.Measure), columns: judgedColumns("Started"), title: verdict.MeasureWords(row.Measure) + " of lock " + row.Lock,
			desc: fmt.Sprintf("%s, the earliest on top, each with what was measured, beside its limit.", figures.Plural(len(e.Runs), "run"))}
		values := map[int]*compare.ArchivedValue{}
		for k := range row.Values {
			values[row.Values[k].Run] = &row.Values[k]
		}
		for k, run := range e.Runs {
			figure := figureOf(row.Unit)
			r := judgedRung(dayOf(run.Started), nil, nil, 0, verdict.Inconclusive, figure)
			if v := values[k]; v != nil && (v.N > 0 || v.Hi != nil) {
				r = judgedRung(r.name, &v.Lo, v.Hi, v.Limit, v.Verdict, figure)
			} else if v != nil {
				r = judgedRung(r.name, nil, nil, v.Limit, v.Verdict, figure)
			}
			r.empty = "no value: " + run.Verdict
			if k > 0 && run.Idle > 0 {
				r.above = append(r.above, "no run for "+idleText(run.Idle))
			}
			r.above = append(r.above, run.Changed...)
			l.rungs = append(l.rungs, r)
		}
		out = append(out, l.draw(id+"-"+count(len(out)+1)))
	}
	return out, level
}

// idleText is a stretch without runs: weeks are read in days.
func idleText(seconds float64) string {
	if days := int(seconds / 86400); days >= 2 {
		return figures.Plural(days, "day")
	}
	return duration(seconds)
}

// dayOf is a start time to the minute.
func dayOf(started string) string {
	w := when(started)
	return w[:min(len(w), len("2006-01-02 15:04"))]
}

// ladder is a picture of ranges: a line, its rung, for each time that a row was measured.
type ladder struct {
	title, desc, axis, unit string
	columns                 []string // of the twin
	rungs                   []rung
	leftOut                 int         // earlier ones
	base                    *[2]float64 // where the base's median lies; nil = it is beside none
}

type rung struct {
	name   string
	lo, hi *float64 // lo nil = nothing was measured; hi nil = its end was not seen
	limit  *float64 // nil = none
	drawn  mark
	empty  string   // said in the place of a measure
	above  []string // what changed before it
	cells  []string // in the twin
}

// judgedRung is a rung of a row that was judged: filled where the promise was kept, hollow where it was not.
func judgedRung(name string, lo, hi *float64, limit float64, v verdict.Verdict, figure func(float64) string) rung {
	r := rung{name: name, lo: lo, hi: hi, drawn: shape("not kept, or not known", "hollow", disc), cells: []string{name, "none", "none", figure(limit), string(v)}}
	if v == verdict.Pass {
		r.drawn = shape("kept: the least and the most that was measured", "mark", disc)
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

// judgedColumns are those of a twin of judged rungs.
func judgedColumns(first string) []string {
	return []string{first, "At least", "At most", "Limit", "Verdict"}
}

func (l *ladder) draw(id string) Picture {
	c := newCanvas(id)
	pic := Picture{Title: l.title, Desc: l.desc, Columns: l.columns}
	most, least := 0.0, 0.0
	for _, r := range l.rungs {
		for _, v := range []*float64{r.lo, r.hi, r.limit} {
			if v != nil {
				most, least = max(most, *v), min(least, *v)
			}
		}
		pic.Rows = append(pic.Rows, r.cells)
	}
	if l.base != nil {
		most, least = max(most, l.base[1]), min(least, l.base[0])
	}
	if early := len(l.rungs) - mostRungs; early > 0 {
		l.rungs, l.leftOut = l.rungs[early:], early
	}
	y, top, s := 16.0, 16.0, scale{least, least + max((most-least)*1.06, 1e-6), left, right}
	if l.leftOut > 0 {
		c.text("dim", start, left, y+2, sizeSmall, right-left, figures.Plural(l.leftOut, "earlier run")+" left out: see the table")
		y, top = y+14, top+14
	}
	var limit, base path
	for _, r := range l.rungs {
		c.rung(s, r, &y, &limit)
	}
	c.show(stroke("limit", "slo"), &limit)
	y += 6
	if l.base != nil {
		base.box(s.x(l.base[0]), top, s.x(l.base[1]), y)
		c.showUnder(baseMedian, &base)
	}
	c.axis(s, top, y, l.axis, axisText(l.unit))
	return c.finish(pic, y+44)
}

// rung draws one measurement: its range, with a disc at either end. An open one ends in an arrow.
func (c *canvas) rung(s scale, r rung, y *float64, limit *path) {
	const h = 17.0
	for _, text := range r.above {
		c.text("dim", start, left, *y+12, sizeSmall, right-left, text)
		*y += h
	}
	at := *y + h/2
	if r.limit != nil {
		limit.tick(s.x(*r.limit), *y, *y+h)
	}
	*y += h
	c.text("dim", end, left-8, at+4, sizeSmall, gutter-12, r.name)
	if r.lo == nil {
		c.text("dim", start, left+4, at+4, sizeSmall, right-left, r.empty)
		return
	}
	from := s.x(*r.lo)
	to := from + 9
	var bar, dots, arrow path
	if r.hi != nil {
		to = s.x(*r.hi)
	} else {
		cut(&arrow, to, at)
	}
	if to-from > 1 {
		bar.line(from, at, to, at)
	}
	for _, x := range []float64{from, to} {
		disc(&dots, min(max(x, s.x0+4), s.x1-4), at)
	}
	c.put("thin", &bar)
	c.show(unfinished, &arrow)
	c.show(r.drawn, &dots)
}

func disc(p *path, x, y float64) { p.dot(x, y, 4) }
