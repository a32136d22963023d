package timeline

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Sweep draws each row of a sweep's steps against its limit: one line a value of the dial, the lowest on top. value writes a value of the
// dial. A row that no step measured has no picture.
func Sweep(s *verdict.Sweep, value func(float64) string) []Picture {
	var out []Picture
	if len(s.Steps) == 0 {
		return nil
	}
	for i := range s.Steps[0].Rows {
		var steps []swept
		for j := range s.Steps {
			step := &s.Steps[j]
			if i < len(step.Rows) && step.Rows[i].Lo != nil {
				steps = append(steps, swept{&step.Rows[i], value(step.Value)})
			}
		}
		if len(steps) > 0 {
			out = append(out, sweptRow("sweep-"+count(len(out)+1), s.Dial, steps))
		}
	}
	return out
}

// swept is one row at one value of the dial.
type swept struct {
	*verdict.SweepRow
	value string
}

func sweptRow(id, dial string, steps []swept) Picture {
	c, r := newCanvas(id), steps[0]
	figure := figureOf(r.Unit)
	measure := strings.NewReplacer("_", " ", ".", " ").Replace(r.Measure)
	pic := Picture{Title: measure + " of lock " + r.Lock + " by " + dial, Columns: []string{dial, "At least", "At most", "Limit", "Verdict"}}
	pic.Desc = fmt.Sprintf("%s of the %s, the lowest on top, each with what was measured, beside the limit of %s.", figures.Plural(len(steps), "value"), dial, figure(r.Limit))
	most, least := r.Limit, 0.0
	for _, x := range steps {
		hi := "not seen"
		if most, least = max(most, *x.Lo), min(least, *x.Lo); x.Hi != nil {
			most, hi = max(most, *x.Hi), figure(*x.Hi)
		}
		pic.Rows = append(pic.Rows, []string{x.value, figure(*x.Lo), hi, figure(x.Limit), string(x.Verdict)})
	}
	scaled, y, top := scale{least, least + max((most-least)*1.06, 1e-6), left, right}, 16.0, 16.0
	for _, x := range steps {
		c.sweptStep(scaled, x, &y)
	}
	y += 6
	var limit path
	limit.tick(scaled.x(r.Limit), top, y)
	c.show(stroke("limit", "slo"), &limit)
	c.axis(scaled, top, y, measure, axisText(r.Unit))
	return c.finish(pic, y+44)
}

// sweptStep draws one value: filled where the promise was kept, hollow where it was not.
func (c *canvas) sweptStep(s scale, x swept, y *float64) {
	const h = 17.0
	at := *y + h/2
	*y += h
	c.text("dim", end, left-8, at+4, sizeSmall, gutter-12, x.value)
	var bar, dot, open path
	from := s.x(*x.Lo)
	to := from + 9
	if x.Hi != nil {
		to = s.x(*x.Hi)
	} else {
		cut(&open, to, at)
	}
	if to-from > 1 {
		bar.line(from, at, to, at)
	}
	disc := func(p *path, x, y float64) { p.dot(x, y, 4) }
	disc(&dot, min(max(from, s.x0+4), s.x1-4), at)
	disc(&dot, min(max(to, s.x0+4), s.x1-4), at)
	c.put("thin", &bar)
	c.show(unfinished, &open)
	if x.Verdict == verdict.Pass {
		c.show(shape("kept: the least and the most that was measured", "mark", disc), &dot)
		return
	}
	c.show(shape("not kept, or not known", "hollow", disc), &dot)
}
