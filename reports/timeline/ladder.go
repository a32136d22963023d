package timeline

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/compare"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/sweep"
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
		l := ladder{measure: row.Measure, unit: row.Unit, column: s.Dial}
		for j := range s.Steps {
			step := &s.Steps[j]
			if i < len(step.Rows) && step.Rows[i].Lo != nil {
				r := &step.Rows[i]
				l.rungs = append(l.rungs, rung{name: value(step.Value), lo: r.Lo, hi: r.Hi, limit: r.Limit, verdict: r.Verdict})
			}
		}
		if len(l.rungs) > 0 {
			l.title = verdict.MeasureWords(row.Measure) + " of lock " + row.Lock + " by " + s.Dial
			limited := "the limit of"
			if row.Ask == verdict.AtLeast {
				limited = "the least that is asked for,"
			}
			l.desc = fmt.Sprintf("%s of the %s, the lowest on top, each with what was measured, beside %s %s.", figures.Plural(len(l.rungs), "value"), s.Dial, limited, figureOf(row.Unit)(l.rungs[0].limit))
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
		l := ladder{measure: row.Measure, unit: row.Unit, column: "Started", title: verdict.MeasureWords(row.Measure) + " of lock " + row.Lock,
			desc: fmt.Sprintf("%s, the earliest on top, each with what was measured, beside its limit.", figures.Plural(len(e.Runs), "run"))}
		values := map[int]*compare.ArchivedValue{}
		for k := range row.Values {
			values[row.Values[k].Run] = &row.Values[k]
		}
		for k, run := range e.Runs {
			r := rung{name: dayOf(run.Started), verdict: verdict.Inconclusive, empty: "no value: " + run.Verdict}
			if v := values[k]; v != nil {
				r.limit, r.verdict = v.Limit, v.Verdict
				if v.N > 0 || v.Hi != nil {
					r.lo, r.hi, r.empty = &v.Lo, v.Hi, ""
				}
			}
			if k > 0 && run.Idle > 0 {
				r.above = append(r.above, "no run for "+idleText(run.Idle))
			}
			r.above = append(r.above, run.Changed...)
			l.rungs = append(l.rungs, r)
		}
		if early := len(l.rungs) - mostRungs; early > 0 {
			l.rungs, l.leftOut = l.rungs[early:], early
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

// ladder is a picture of one row: a line, its rung, for each time that it was measured.
type ladder struct {
	title, desc, column, measure, unit string
	rungs                              []rung
	leftOut                            int // earlier ones
}

type rung struct {
	name    string
	lo, hi  *float64 // lo nil = nothing was measured; hi nil = its end was not seen
	limit   float64
	verdict verdict.Verdict
	empty   string   // said in the place of a measure
	above   []string // what changed before it
}

func (l *ladder) draw(id string) Picture {
	c, figure := newCanvas(id), figureOf(l.unit)
	pic := Picture{Title: l.title, Desc: l.desc, Columns: []string{l.column, "At least", "At most", "Limit", "Verdict"}}
	most, least := 0.0, 0.0
	for _, r := range l.rungs {
		lo, hi := "none", "none"
		most = max(most, r.limit)
		if r.lo != nil {
			lo, hi = figure(*r.lo), "not seen"
			most, least = max(most, *r.lo), min(least, *r.lo)
		}
		if r.lo != nil && r.hi != nil {
			most, hi = max(most, *r.hi), figure(*r.hi)
		}
		pic.Rows = append(pic.Rows, []string{r.name, lo, hi, figure(r.limit), string(r.verdict)})
	}
	y, top, s := 16.0, 16.0, scale{least, least + max((most-least)*1.06, 1e-6), left, right}
	if l.leftOut > 0 {
		c.text("dim", start, left, y+2, sizeSmall, right-left, figures.Plural(l.leftOut, "earlier run")+" left out")
		y, top = y+14, top+14
	}
	var limit path
	for _, r := range l.rungs {
		c.rung(s, r, &y, &limit)
	}
	c.show(stroke("limit", "slo"), &limit)
	y += 6
	c.axis(s, top, y, verdict.MeasureWords(l.measure), axisText(l.unit))
	return c.finish(pic, y+44)
}

// rung draws one measurement: filled where the promise was kept, hollow where it was not.
func (c *canvas) rung(s scale, r rung, y *float64, limit *path) {
	const h = 17.0
	for _, text := range r.above {
		c.text("dim", start, left, *y+12, sizeSmall, right-left, text)
		*y += h
	}
	at := *y + h/2
	if r.limit != 0 || r.lo != nil {
		limit.tick(s.x(r.limit), *y, *y+h)
	}
	*y += h
	c.text("dim", end, left-8, at+4, sizeSmall, gutter-12, r.name)
	if r.lo == nil {
		c.text("dim", start, left+4, at+4, sizeSmall, right-left, r.empty)
		return
	}
	from := s.x(*r.lo)
	to := from + 9
	if r.hi != nil {
		to = s.x(*r.hi)
	}
	m := shape("not kept, or not known", "hollow", disc)
	if r.verdict == verdict.Pass {
		m = shape("kept: the least and the most that was measured", "mark", disc)
	}
	c.measured(s, m, from, to, at, r.hi == nil, from, to)
}

func disc(p *path, x, y float64) { p.dot(x, y, 4) }

// measured draws a range on a line of its own, with discs at some places of it. An open one ends in an arrow.
func (c *canvas) measured(s scale, m mark, from, to, y float64, open bool, discs ...float64) {
	var bar, dots, arrow path
	if open {
		cut(&arrow, to, y)
	}
	if to-from > 1 {
		bar.line(from, y, to, y)
	}
	for _, x := range discs {
		disc(&dots, min(max(x, s.x0+4), s.x1-4), y)
	}
	c.put("thin", &bar)
	c.show(unfinished, &arrow)
	c.show(m, &dots)
}
