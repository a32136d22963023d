package timeline

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// work draws what the replica did under the key.
func (x *closeUp) work(r *verdict.ReplicaLane, y float64) {
	class, _ := x.owners.of(r.Name)
	var work, paused path
	draw := func(who string, es []verdict.Extent) {
		for _, e := range es {
			if x0, x1 := x.px(e.Start), x.until(e.End); history.ReplicaOf(who) == r.Name && x1 > x0 {
				work.box(x0, y+4, x1, y+12)
			}
		}
	}
	draw(x.t.Victim, x.t.Work)
	draw(x.t.Successor, x.t.NextWork)
	for _, p := range r.Paused {
		if x0, x1 := x.px(p.Start), x.until(p.End); x1 > x0 {
			paused.box(x0, y+1, x1, y+15)
		}
	}
	x.c.put(class, &work)
	x.c.weave("hatch", &paused)
	x.paused = x.paused || !paused.empty()
}

// attempts draws every acquire of the replica: refused, granted, or without an answer.
func (x *closeUp) attempts(name string, y float64) {
	var refused, granted, silent path
	last := -10.0
	n, drawn := 0, 0
	for i := range x.t.Attempts {
		a := &x.t.Attempts[i]
		if history.ReplicaOf(a.Who) != name || !x.in(a.At.Start) {
			continue
		}
		at := x.px(a.At.Start)
		if !a.At.End.Open() {
			at = (at + x.px(a.At.End)) / 2
		}
		switch {
		case a.Result == "granted":
			granted.down(at, y+16, 5)
			continue
		case at-last < 5:
			n++
			continue
		case a.Result == "held":
			refused.dot(at, y+19, 2.5)
		default:
			silent.cross(at, y+19, 2.5)
		}
		n++
		drawn++
		last = at
	}
	x.c.put("hollow", &refused)
	x.c.put("stroke", &silent)
	x.c.put("mark", &granted)
	x.held, x.silent = x.held || !refused.empty(), x.silent || !silent.empty()
	x.refused += n
	x.folded += n - drawn
}

// dimension draws the takeover and its parts as lengths, named below.
func (x *closeUp) dimension() {
	t := x.t
	y := x.y + 4
	x0, x1 := trialExtent(x.relative(), t)
	var whole, p path
	whole.line(x0, y+1, x0, y+11)
	whole.line(x0, y+6, x1, y+6)
	if t.Ended != nil {
		whole.line(x1, y+1, x1, y+11)
	} else {
		whole.line(x1-5, y+1, x1, y+6, x1-5, y+11)
	}
	x.name(y+10, "takeover", "")
	x.c.put("stroke", &whole)
	text := about(t.Whole())
	if t.Class != verdict.ClassCrash {
		text += " (" + t.Class + ")"
	}
	w := widthOf(text, sizeName)
	var r row
	r.take(x0-2, x1+2)
	if at, ok := r.place(w, left, right, x1+8, x0-8-w); ok {
		x.c.text("away", start, at, y+10, sizeName, w+1, text)
	} else {
		p.box((x0+x1-w)/2-4, y-3, (x0+x1+w)/2+4, y+15)
		x.c.put("ground", &p)
		x.c.text("away", middle, (x0+x1)/2, y+10, sizeName, w+1, text)
	}
	var bars parts
	bars.add(x.relative(), t, y+18, y+30)
	bars.put(x.c)
	x.measured = y + 31
	x.parts(y + 44)
	x.y = y + 52
}

// relative is the scale for instants of the run.
func (x *closeUp) relative() scale { return scale{x.s.from + x.zero, x.s.to + x.zero, x.s.x0, x.s.x1} }

// parts names residual, pickup and warm-up under their bars.
func (x *closeUp) parts(y float64) {
	t := x.t
	var texts []string
	var mids, widths []float64
	add := func(name string, r *verdict.Range, a, b float64) {
		if r == nil {
			return
		}
		text := name + " " + about(*r)
		texts, mids, widths = append(texts, text), append(mids, (a+b)/2), append(widths, widthOf(text, sizeSmall))
	}
	s := x.relative()
	x0, x1 := trialExtent(s, t)
	a, b := cuts(s, t, x0, x1)
	add("residual", t.Residual, x0, a)
	add("pickup", t.Pickup, a, b)
	add("warm-up", t.Warmup, b, x1)
	lefts, ok := spread(mids, widths, left, right, 12)
	if !ok {
		return
	}
	for i, text := range texts {
		x.c.text("away", start, lefts[i], y, sizeSmall, widths[i]+1, text)
	}
}

// others draws the takeovers of the further keys that the same fault struck.
func (x *closeUp) others(ts []*verdict.TrialLane) {
	var bars parts
	for _, t := range ts[:min(len(ts), maxOthers)] {
		x.name(x.y+8, t.Key, "")
		bars.add(x.relative(), t, x.y, x.y+9)
		x.y += 16
	}
	bars.put(x.c)
	if n := len(ts) - maxOthers; n > 0 {
		x.c.text("dim", start, left, x.y+10, sizeSmall, right-left, figures.Plural(n, "further key")+" that the same fault struck: in the table")
		x.y += 18
	}
}

// guides are lines through all lanes at the instants that the value was measured from.
func (x *closeUp) guides(top, bottom float64) {
	var fault, other path
	fault.tick(x.s.x(mid(x.t.Clock)-x.zero), top, x.measured)
	for _, i := range x.instants() {
		if i.what != "SLO max" {
			other.tick(x.px(i.at), top+26, x.measured)
		}
	}
	if m := x.limit(); m != nil && x.in(*m) {
		var slo path
		slo.tick(x.px(*m), top+26, x.measured)
		x.c.put("slo", &slo)
	}
	x.c.under("kill", &fault)
	x.c.under("phase", &other)
	if x.folded > 0 {
		x.c.text("dim", start, left, bottom-2, sizeSmall, right-left, figures.Count(x.refused)+" attempts, those closer than can be told apart drawn as one")
	}
}

// legend explains what the lanes of this close-up show.
func (x *closeUp) legend(y float64) float64 {
	l := legend{c: x.c}
	if x.crossed {
		l.shape("stroke", "killed", func(p *path, x, y float64) { p.cross(x, y, 4) })
	}
	if x.goneObject {
		l.shape("hollow", "its pod's object gone", func(p *path, x, y float64) { p.down(x, y+4, 4) })
	}
	if x.ghosts {
		l.swatch("ghost", "ghost", "lease runs on, its holder gone or done")
	}
	if x.overruns {
		l.add(22, "still relied on, the lease is over", func(at, y float64) {
			var p path
			p.box(at, y-2, at+22, y+2)
			x.c.put("overrun", &p)
		})
	}
	if x.paused {
		l.swatch("alive", "hatch", "paused")
	}
	if x.held {
		l.shape("hollow", "asked, refused", func(p *path, x, y float64) { p.dot(x, y, 2.5) })
	}
	if x.silent {
		l.shape("stroke", "asked, no answer", func(p *path, x, y float64) { p.cross(x, y, 2.5) })
	}
	l.shape("mark", "granted", func(p *path, x, y float64) { p.down(x, y+5, 5) })
	if x.t.Ended != nil && x.t.Takeover.End == "effect" {
		l.shape("mark", "first effect", func(p *path, x, y float64) { p.dot(x, y, 3) })
	}
	return l.draw(y)
}
