package timeline

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// plot is one lock: its takeovers against what was promised and what was to be expected.
type plot struct {
	c      *canvas
	lock   string
	scale  float64 // time scale
	ts     []numbered
	limits []limit
	bands  []band
	s      scale
	y      float64
}

// numbered is a takeover with its place in Judgement.Takeovers, from 1 on.
type numbered struct {
	*verdict.Takeover
	n int
}

// limit is one bound that the experiment promises.
type limit struct {
	name  string
	value float64
}

// band is where takeovers were to be expected.
type band struct {
	name      string
	lo, hi    float64
	rehearsed bool // drawn as an outline: it lies within what the sum allows
}

// bandsOf lists what is known to be possible for the lock before anything is measured.
func bandsOf(j *verdict.Judgement, lock string) []band {
	var out []band
	for _, b := range j.Bands {
		if b.Lock == lock {
			name := "possible by the timings"
			if b.Untold != "" {
				name = "by the timings, but for the retry"
			}
			out = append(out, band{name: name, lo: b.Lo, hi: b.Hi})
		}
	}
	for _, b := range j.Predicted {
		if b.Lock == lock && b.Hi != nil { // an open end bounds nothing that could be drawn
			out = append(out, band{"rehearsed, " + b.Class, b.Lo, *b.Hi, true})
		}
	}
	return out
}

func limitsOf(j *verdict.Judgement, lock string) []limit {
	var out []limit
	for _, s := range j.SLOs {
		q := s.Question
		if s.Lock != lock || q == nil || q.Measure != "takeover" || s.Ask != verdict.AtMost {
			continue
		}
		l := limit{name: q.Bound(), value: s.Limit}
		out = append(out, l)
	}
	return out
}

// Takeovers draws the takeovers of each lock that has any against what was promised and what was to be expected.
func Takeovers(e *experiments.Experiment, j *verdict.Judgement) []Picture {
	var locks []string
	of := map[string][]numbered{}
	for i := range j.Takeovers {
		t := &j.Takeovers[i]
		if t.Fault == "" { // a theft's value is no takeover
			continue
		}
		if of[t.Lock] == nil {
			locks = append(locks, t.Lock)
		}
		of[t.Lock] = append(of[t.Lock], numbered{t, i + 1})
	}
	slices.SortStableFunc(locks, func(a, b string) int { return place(e, a) - place(e, b) })
	var out []Picture
	for i, lock := range locks {
		p := &plot{lock: lock, scale: j.Run.TimeScale, ts: of[lock], limits: limitsOf(j, lock), bands: bandsOf(j, lock)}
		out = append(out, p.dots("takeovers-"+count(i+1)))
	}
	return out
}

// place of a lock in the experiment's file; those that only the history knows come last.
func place(e *experiments.Experiment, lock string) int {
	for i := range e.System.Locks {
		if e.System.Locks[i].Name == lock {
			return i
		}
	}
	return len(e.System.Locks)
}

// dots draws every takeover with its error.
func (p *plot) dots(id string) Picture {
	p.c = newCanvas(id)
	pic := Picture{Title: "Takeovers of lock " + p.lock, Desc: p.describe(),
		Columns: []string{"#", "Fault", "Key", "From", "To", "Takeover", "Left of the lease", "Pickup", "Warm-up", "Tick gap", "Class", "Ended by"}}
	_, hi, _ := p.extremes()
	for _, l := range p.limits {
		hi = max(hi, l.value)
	}
	for _, b := range p.bands {
		hi = max(hi, b.hi)
	}
	p.s = scale{0, max(hi*1.06, 1e-4), left, right}
	lines := p.names()
	p.y = 14 + 16*float64(len(lines))
	top := p.y
	p.trials()
	p.promises(lines, top, p.y)
	p.c.axis(p.s, top, p.y, "takeover: from the fault to the first effect of the next owner"+scaled(p.scale), tickText)
	pic.Rows = rowsOf(p.ts, func(t numbered) []string {
		tick := ""
		if t.TickGap != nil {
			tick = bracket(*t.TickGap)
		}
		return []string{count(t.n), t.Fault, t.Key, t.Victim, cmp.Or(t.Successor, "nobody yet"), bracket(t.Whole()),
			optional(t.Residual), optional(t.Pickup), optional(t.Warmup), tick, t.Class, t.End}
	})
	return p.c.finish(pic, p.y+44)
}

// extremes are the least and the greatest end of the takeovers that was seen, and how many were not seen to end.
func (p *plot) extremes() (lo, hi float64, open int) {
	lo = math.Inf(1)
	for _, t := range p.ts {
		lo, hi = min(lo, t.Lo), max(hi, t.Lo)
		if t.Hi == nil {
			open++
		} else {
			hi = max(hi, *t.Hi)
		}
	}
	return lo, hi, open
}

func (p *plot) describe() string {
	lo, hi, open := p.extremes()
	s := figures.Plural(len(p.ts), "takeover") + " of " + duration(lo)
	if duration(hi) != duration(lo) {
		s += " to " + duration(hi)
	}
	if open > 0 {
		s += ", " + figures.Count(open) + " not seen to the end"
	}
	for _, l := range p.limits {
		s += "; promised " + l.name + " <= " + duration(l.value)
	}
	for _, b := range p.bands {
		s += "; " + b.name + " " + duration(b.lo) + " to " + duration(b.hi)
	}
	return s + "."
}

// trials draws one line a takeover, in the order of the run.
func (p *plot) trials() {
	h := min(max(200/float64(len(p.ts)), 1), 14)
	p.c.text("ink", end, left-8, p.y+12, sizeName, gutter-16, p.lock)
	p.c.text("dim", end, left-8, p.y+26, sizeSmall, gutter-16, figures.Plural(len(p.ts), "takeover")+",")
	p.c.text("dim", end, left-8, p.y+39, sizeSmall, gutter-16, "the first on top")
	r := min(max(h/2.4, 1.4), 3.6)
	var bars, open path
	shapes := map[string]*path{}
	seen := map[[2]int]bool{}
	var between path // what one fault did to several keys stands together
	for i, t := range p.ts {
		y := p.y + (float64(i)+0.5)*h
		if i > 0 && t.Fault != p.ts[i-1].Fault && h > 2 {
			between.line(left, y-h/2, right, y-h/2)
		}
		x0, x1, x := p.s.x(t.Lo), right, p.s.x(t.Lo)
		if t.Hi != nil {
			x1 = p.s.x(*t.Hi)
			x = (x0 + x1) / 2
		} else {
			cut(&open, x+6, y)
			x1 = x + 9
		}
		if cell := [2]int{int(x), int(y)}; h < 2 && seen[cell] {
			continue
		} else {
			seen[cell] = true
		}
		if x1-x0 > 1 {
			bars.line(x0, y, x1, y)
		}
		if shapes[t.Class] == nil {
			shapes[t.Class] = &path{}
		}
		shapeOf(t.Class).draw(shapes[t.Class], x, y, r)
	}
	p.c.under("grid", &between)
	p.c.put("thin", &bars)
	p.c.show(unfinished, &open)
	for _, class := range slices.Sorted(maps.Keys(shapes)) {
		s := shapeOf(class)
		p.c.show(shape(s.text, s.style, func(p *path, x, y float64) { s.draw(p, x, y, 3.4) }), shapes[class])
	}
	p.y += max(h*float64(len(p.ts)), 44) + 10
}

// classShape is how takeovers of one class are drawn.
type classShape struct {
	style, text string
	draw        func(p *path, x, y, r float64)
}

func shapeOf(class string) classShape {
	disc := func(p *path, x, y, r float64) { p.dot(x, y, r) }
	square := func(p *path, x, y, r float64) { p.box(x-r, y-r, x+r, y+r) }
	switch class {
	case verdict.ClassCrash:
		return classShape{"mark", "after a kill", disc}
	case verdict.ClassPause:
		return classShape{"mark", "after a fault that cut the holder off", func(p *path, x, y, r float64) { p.diamond(x, y, r+0.6) }}
	case verdict.ClassStore:
		return classShape{"mark", "after a fault of the store", square}
	case verdict.ClassTheft:
		return classShape{"mark", "after the key was taken away", func(p *path, x, y, r float64) { p.down(x, y+r, r) }}
	case verdict.ClassRecovery:
		return classShape{"hollow", "recovery: the victim itself again", square}
	case verdict.ClassHandOver:
		return classShape{"hollow", "hand-over: given back", disc}
	}
	return classShape{"hollow", class, func(p *path, x, y, r float64) { p.diamond(x, y, r+0.6) }}
}

// names of the limits and bands in the lines that they take: one if they fit, else one for the bands and one for the limits.
func (p *plot) names() [][]label {
	var bands, limits []label
	for _, b := range p.bands {
		bands = append(bands, label{b.name + " " + duration(b.lo) + " to " + duration(b.hi), "bandtext", (p.s.x(b.lo) + p.s.x(b.hi)) / 2})
	}
	for _, l := range p.limits {
		limits = append(limits, label{"SLO " + l.name + " ≤ " + duration(l.value), "slotext", p.s.x(l.value)})
	}
	both := slices.Concat(bands, limits)
	if _, ok := spread(both, 10); ok || len(bands) == 0 || len(limits) == 0 {
		return [][]label{both}
	}
	return [][]label{bands, limits}
}

// promises draws limits and bands through the takeovers, and names them above, apart from one another.
func (p *plot) promises(lines [][]label, top, bottom float64) {
	var limits, bands, outlines path
	for _, b := range p.bands {
		if b.rehearsed {
			outlines.box(p.s.x(b.lo), top+2, p.s.x(b.hi), bottom-2)
			continue
		}
		bands.box(p.s.x(b.lo), top, p.s.x(b.hi), bottom)
	}
	for _, l := range p.limits {
		limits.tick(p.s.x(l.value), top, bottom)
	}
	p.c.showUnder(possible, &bands)
	p.c.show(rehearsed, &outlines)
	p.c.show(sloLimit, &limits)
	for i, ls := range lines {
		lefts, ok := spread(ls, 10)
		for ; !ok; lefts, ok = spread(ls, 10) { // the description names them all
			ls = ls[:len(ls)-1]
		}
		y := 14 + 16*float64(i)
		p.c.labels(ls, lefts, y)
		if i == len(lines)-1 {
			p.c.leads(ls, lefts, y+4, top-2)
		}
	}
}
