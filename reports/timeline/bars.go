package timeline

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

const (
	maxLines  = 40 // takeovers with a line and a label each; more become columns
	barHeight = 14.0
)

// bars draws what every takeover consists of.
func (p *plot) bars(id string) Picture {
	p.c = newCanvas(id)
	p.key = legend{c: p.c}
	pic := Picture{ID: id, Title: "What the takeovers of lock " + p.lock + " consist of", Desc: p.consist(),
		Columns: []string{"#", "Fault", "Key", "Residual", "Pickup", "Warm-up", "Takeover", "Tick gap"}}
	for _, t := range p.ts[:min(len(p.ts), maxRows)] {
		tick := ""
		if t.TickGap != nil {
			tick = bracket(*t.TickGap)
		}
		pic.Rows = append(pic.Rows, []string{count(t.n), t.Fault, t.Key, optional(t.Residual), optional(t.Pickup), optional(t.Warmup),
			bracket(t.Whole()), tick})
	}
	pic.Rows = more(pic.Rows, len(p.ts), len(pic.Columns))
	p.y = 8
	if len(p.ts) <= maxLines {
		p.lines()
	} else {
		p.columns()
	}
	p.drawn.explain(&p.key)
	p.y = p.key.draw(p.y + 44)
	pic.SVG = p.c.finish(pic.Title, pic.Desc, p.y+8)
	return pic
}

func (p *plot) consist() string {
	var sum [3]float64
	for _, t := range p.ts {
		for i, r := range []*verdict.Range{t.Residual, t.Pickup, t.Warmup} {
			sum[i] += centre(r)
		}
	}
	n := float64(len(p.ts))
	return "On average " + duration(sum[0]/n) + " residual, " + duration(sum[1]/n) + " pickup, " + duration(sum[2]/n) + " warm-up."
}

// centre is where a part is drawn: the middle of its range, its least where it is open; 0 where it was not seen.
func centre(r *verdict.Range) float64 {
	switch {
	case r == nil:
		return 0
	case r.Hi == nil:
		return r.Lo
	}
	return (r.Lo + *r.Hi) / 2
}

func (t numbered) parts() [3]float64 {
	return [3]float64{centre(t.Residual), centre(t.Pickup), centre(t.Warmup)}
}

// length of the stacked parts; of a takeover that has none its own.
func (t numbered) length() float64 {
	ps := t.parts()
	if sum := ps[0] + ps[1] + ps[2]; t.Residual != nil {
		return sum
	}
	whole := t.Whole()
	return centre(&whole)
}

func (p *plot) longest() float64 {
	v := 0.0
	for _, t := range p.ts {
		v = max(v, t.length())
	}
	return max(v, 1e-4)
}

// lines draws a horizontal bar for each takeover.
func (p *plot) lines() {
	p.s = scale{0, p.longest(), left, right - 70}
	top := p.y
	var layers [3]path
	var whole path
	for _, t := range p.ts {
		x := p.s.x0
		label := count(t.n) + " " + t.Fault
		p.c.text("ink", end, left-8, p.y+10, sizeSmall, gutter-16, label)
		if t.Residual == nil {
			x = p.s.x(t.length())
			whole.box(p.s.x0, p.y+3, max(x, p.s.x0+1), p.y+9)
		} else {
			at := 0.0
			for i, v := range t.parts() {
				if a, b := p.s.x(at), p.s.x(at+v); b-a > 0.2 {
					layers[i].box(a, p.y+1, b, p.y+11)
					x = b
				}
				at += v
			}
		}
		p.c.text("away", start, x+7, p.y+10, sizeSmall, right-x-4, about(t.Whole()))
		p.y += barHeight
	}
	p.put(layers, &whole)
	p.c.axis(p.s, top, p.y+2, "time from the fault"+scaled(p.scale), tickText)
}

// columns draws a vertical bar for each takeover, or for the longest of those that share one.
func (p *plot) columns() {
	const height = 220
	n := len(p.ts)
	w := max((right-left)/float64(n), 2)
	per := int(float64(n)*w/(right-left) + 0.999)
	top := p.y
	s := scale{0, p.longest() * 1.04, 0, height}
	at, step := s.ticks(5)
	var grid path
	for _, v := range at {
		y := top + height - s.x(v)
		grid.line(left, y, right, y)
		p.c.text("dim", end, left-6, y+4, sizeSmall, 60, tickText(v, step, s.to))
	}
	p.c.under("grid", &grid)
	p.c.text("ink", end, left-50, top+34, sizeName, gutter-58, p.lock)
	var layers [3]path
	var whole path
	for i, k := 0, 0; i < n; i, k = i+per, k+1 {
		t := p.ts[i]
		for _, o := range p.ts[i:min(n, i+per)] {
			if o.length() > t.length() {
				t = o
			}
		}
		x0, x1 := left+float64(k)*w, min(left+float64(k+1)*w-min(3, w/4), right)
		if t.Residual == nil {
			whole.box(x0, top+height-s.x(t.length()), x1, top+height)
			continue
		}
		from := 0.0
		for i, v := range t.parts() {
			if a, b := s.x(from), s.x(from+v); b-a > 0.2 {
				layers[i].box(x0, top+height-b, x1, top+height-a)
			}
			from += v
		}
	}
	p.put(layers, &whole)
	var floor path
	floor.line(left, top+height, right, top+height)
	p.c.put("rule", &floor)
	p.y = top + height
	text := figures.Plural(n, "takeover") + " in the order of the run" + scaled(p.scale)
	if per > 1 {
		text += "; a column is the longest of " + count(per)
	}
	p.c.text("dim", middle, (left+right)/2, p.y+18, sizeSmall, right-left, text)
	p.y -= 10
}

func (p *plot) put(layers [3]path, whole *path) {
	bars := parts{residual: layers[0], pickup: layers[1], warmup: layers[2], whole: *whole}
	bars.put(p.c)
	p.drawn.note(&bars)
}
