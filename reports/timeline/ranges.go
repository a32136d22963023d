package timeline

import (
	"slices"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// ranges is a picture of what was measured time and again, on one axis of values: a row each time, beside what was promised and what was
// to be expected.
type ranges struct {
	title, desc string
	axis        string // its name
	text        func(t, step, largest float64) string
	of          string // what a row is
	columns     []string
	rows        []ranged
	limits      []limit // of all rows
	bands       []band
}

// ranged is one row: its range with a mark at either end, or at its middle where that is all one can see.
type ranged struct {
	name   string
	lo, hi *float64 // lo nil = nothing was measured; hi nil = its end was not seen
	limit  *float64 // its own; nil = none
	drawn  mark
	empty  string   // said in the place of a measure
	above  []string // what changed before it
	parted bool     // a line sets it apart from the row before
	cells  []string // in the twin
}

// limit is one bound that the experiment promises.
type limit struct {
	name  string
	value float64
}

// band is where values were to be expected, or another's lie.
type band struct {
	mark
	name   string // "" = only the legend says
	lo, hi float64
}

const (
	maxRanges   = 400 // rows of a picture; those that are left out are the earliest, and are counted
	rangeHeight = 17.0
)

func (r *ranges) draw(id string) Picture {
	c := newCanvas(id)
	pic := Picture{Title: r.title, Desc: r.desc, Columns: r.columns}
	most, least := 0.0, 0.0
	reach := func(vs ...*float64) {
		for _, v := range vs {
			if v != nil {
				most, least = max(most, *v), min(least, *v)
			}
		}
	}
	for _, row := range r.rows {
		reach(row.lo, row.hi, row.limit)
		pic.Rows = append(pic.Rows, row.cells)
	}
	var bands, limits []label
	for i := range r.bands {
		reach(&r.bands[i].lo, &r.bands[i].hi)
	}
	for i := range r.limits {
		reach(&r.limits[i].value)
	}
	if most == least {
		most++
	}
	s := scale{least, least + (most-least)*1.06, left, right}
	for _, b := range r.bands {
		if b.name != "" {
			bands = append(bands, label{b.name + " " + duration(b.lo) + " to " + duration(b.hi), "bandtext", (s.x(b.lo) + s.x(b.hi)) / 2})
		}
	}
	for _, l := range r.limits {
		limits = append(limits, label{"SLO " + l.name + " ≤ " + duration(l.value), "slotext", s.x(l.value)})
	}
	y := 0.0
	for _, names := range [][]label{bands, limits} {
		if len(names) > 0 {
			y += 16
			c.captions(names, y-2, y+4)
		}
	}
	if out := len(r.rows) - maxRanges; out > 0 {
		y += 16
		c.text("dim", start, left, y-2, sizeSmall, right-left, figures.Plural(out, "earlier "+r.of)+" left out: see the table")
		r.rows = r.rows[out:]
	}
	y += 6
	top := y
	bottom := r.measured(c, s, top)
	for _, b := range r.bands {
		var p path
		p.box(s.x(b.lo), top, s.x(b.hi), bottom)
		c.showUnder(b.mark, &p)
	}
	var p path
	for _, l := range r.limits {
		p.tick(s.x(l.value), top, bottom)
	}
	c.show(sloLimit, &p)
	c.axis(s, top, bottom, r.axis, r.text)
	return c.finish(pic, bottom+44)
}

// measured draws the rows, the first on top, closer together the more there are. Names that would lie over another are left out.
func (r *ranges) measured(c *canvas, s scale, y float64) (bottom float64) {
	h := min(rangeHeight, max(360/float64(len(r.rows)), 1))
	var between, limits, bars, open path
	var kinds []mark
	dots := map[string]*path{}
	parts := slices.ContainsFunc(r.rows, func(row ranged) bool { return !row.parted })
	named, first := 0.0, y
	for _, row := range r.rows {
		for _, text := range row.above {
			c.text("dim", start, left, y+12, sizeSmall, right-left, text)
			y += rangeHeight
			named = y
		}
		if parts && row.parted && h > 2 && y > first {
			between.line(left, y, right, y)
		}
		at := y + h/2
		if row.limit != nil {
			limits.tick(s.x(*row.limit), y, y+h)
		}
		if y += h; at-6 >= named || named == 0 {
			c.text("dim", end, left-8, at+4, sizeSmall, gutter-12, row.name)
			named = at + 6
		}
		if row.lo == nil {
			if h >= 12 {
				c.text("dim", start, left+4, at+4, sizeSmall, right-left, row.empty)
			}
			continue
		}
		x0 := s.x(*row.lo)
		x1 := x0 + 14
		if row.hi != nil {
			x1 = s.x(*row.hi)
		} else {
			cut(&open, x1-3, at, 3)
		}
		if x1-x0 > 1 {
			bars.line(x0, at, x1, at)
		}
		if dots[row.drawn.text] == nil {
			dots[row.drawn.text] = &path{}
			kinds = append(kinds, row.drawn)
		}
		size := min(max(h/2.4, 1.4), row.drawn.half)
		for _, x := range ends(x0, x1, row.hi == nil) {
			row.drawn.point(dots[row.drawn.text], min(max(x, s.x0+size), s.x1-size), at, size)
		}
	}
	c.under("grid", &between)
	c.put("thin", &bars)
	c.show(unfinished, &open)
	for _, m := range kinds {
		c.show(m, dots[m.text])
	}
	c.show(sloLimit, &limits)
	return y + 6
}

// ends are where the marks of a range lie: at its ends, or in its middle where they would lie over one another.
func ends(x0, x1 float64, open bool) []float64 {
	switch {
	case open:
		return []float64{x0}
	case x1-x0 < 8:
		return []float64{(x0 + x1) / 2}
	}
	return []float64{x0, x1}
}
